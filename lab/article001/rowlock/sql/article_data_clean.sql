-- Delete the values whose writers have died. The predicates:
--   last_term                below a limit by the deleter's clock (see
--                            article_clean.sql).
DELETE FROM t_ds_jdbc_registry_data WHERE last_term < ?
