-- Who holds the leader's lock, seen from this connection: the evidence.
SELECT IS_USED_LOCK(?) AS conn
