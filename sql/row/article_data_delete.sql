-- Delete a value, whichever client put it.
DELETE FROM t_ds_jdbc_registry_data WHERE data_key = ?
