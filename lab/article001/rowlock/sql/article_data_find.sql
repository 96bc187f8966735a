-- The id of a key's row: ephemeral values are refreshed by it.
SELECT id FROM t_ds_jdbc_registry_data WHERE data_key = ?
