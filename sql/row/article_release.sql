-- Release: the row goes, and the next insert works.
DELETE FROM t_ds_jdbc_registry_lock WHERE id = ?
