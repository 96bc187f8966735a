-- The row of a lock that was just inserted: it is refreshed and released by its
-- id.
SELECT id FROM t_ds_jdbc_registry_lock WHERE lock_key = ? AND lock_owner = ?
