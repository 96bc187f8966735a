-- Delete the ephemeral values (1) whose writers have died. The predicates:
--   last_term                below a limit by the deleter's clock (see
--                            article_clean.sql).
DELETE FROM t_ds_jdbc_registry_data WHERE data_type = 1 AND last_term < ?
