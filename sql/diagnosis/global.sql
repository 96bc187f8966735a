-- The connection that holds the global read lock of a backup. It needs the
-- privileges PROCESS and SELECT on performance_schema, and exists on MySQL only.
-- The predicates:
--   object_type, lock_type   the lock that FLUSH TABLES WITH READ LOCK takes.
--   lock_status              it is held, and not waited for.
SELECT t.processlist_id, COALESCE(t.processlist_user, ''), COALESCE(t.processlist_host, ''), COALESCE(t.processlist_time, 0) AS seconds
FROM performance_schema.metadata_locks m JOIN performance_schema.threads t ON t.thread_id = m.owner_thread_id
WHERE m.object_type = 'GLOBAL' AND m.lock_type = 'SHARED' AND m.lock_status = 'GRANTED'
LIMIT 1
