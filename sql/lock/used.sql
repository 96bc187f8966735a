-- The connection that holds the leader's lock, seen from this one: the
-- evidence.
SELECT IS_USED_LOCK(?) AS conn
