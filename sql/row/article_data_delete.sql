-- Delete a value, whoever put it.
DELETE FROM t_ds_jdbc_registry_data WHERE data_key = ?
