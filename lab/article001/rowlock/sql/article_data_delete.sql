-- Delete a value. The predicates:
--   data_key                 and nothing else: any client may have put it.
DELETE FROM t_ds_jdbc_registry_data WHERE data_key = ?
