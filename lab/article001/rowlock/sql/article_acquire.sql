-- Acquire the lock: the unique key refuses a second row. On InnoDB a refused
-- row uses up an id nevertheless.
INSERT INTO t_ds_jdbc_registry_lock (lock_key, lock_owner, last_term) VALUES (?, ?, ?)
