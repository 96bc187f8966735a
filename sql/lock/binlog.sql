-- Whether this server sends statements as text to its replicas. The predicate
-- with IS_USED_LOCK would match nothing there, and a failover would set the
-- term back. On such a server there is no witness.
SELECT @@log_bin AS log_bin, @@binlog_format AS format
