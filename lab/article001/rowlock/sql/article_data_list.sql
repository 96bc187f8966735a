-- All values; subscribers compare them with the last ones they read.
-- last_update_time changes with a value and not with a refresh, so
-- article_data_put.sql sets it, and it is not set automatically.
SELECT data_key, data_value, last_update_time FROM t_ds_jdbc_registry_data ORDER BY data_key
