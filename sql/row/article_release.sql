-- Release the lock: after this the next insert succeeds.
DELETE FROM t_ds_jdbc_registry_lock WHERE id = ?
