-- Release the lock: after this the next insert succeeds. The predicates:
--   id                       the row that I inserted.
DELETE FROM t_ds_jdbc_registry_lock WHERE id = ?
