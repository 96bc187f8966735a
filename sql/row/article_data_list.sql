-- All values: subscribers compare them with what they saw last. last_update_time moves
-- with a value and not with a refresh (so it is set by data_put and not by itself).
SELECT data_key, data_value, last_update_time FROM t_ds_jdbc_registry_data ORDER BY data_key
