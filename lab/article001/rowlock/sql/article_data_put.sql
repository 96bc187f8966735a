-- Put a value under a key. The last client to put it refreshes it.
INSERT INTO t_ds_jdbc_registry_data (data_key, data_value, data_type, last_term, last_update_time)
VALUES (?, ?, 1, ?, NOW(3))
ON DUPLICATE KEY UPDATE data_value = VALUES(data_value), last_term = VALUES(last_term), last_update_time = NOW(3)
