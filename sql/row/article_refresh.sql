-- Refresh one held row by its id; the article says it for all of them at once. The
-- predicates:
--   id                       the row that I inserted. Nobody looks whether it is still
--                            there: a lock that was cleaned away is refreshed in vain.
UPDATE t_ds_jdbc_registry_lock SET last_term = ? WHERE id = ?
