-- Whether this server writes statements as text to its replicas: the predicate
-- with IS_USED_LOCK would match nothing there, and a fail-over would set the term
-- back. Such a server gets no witness.
SELECT @@log_bin AS log_bin, @@binlog_format AS format
