-- Acquire: the unique key refuses a second row. On InnoDB a refused row has used up
-- an id all the same.
INSERT INTO t_ds_jdbc_registry_lock (lock_key, lock_owner, last_term) VALUES (?, ?, ?)
