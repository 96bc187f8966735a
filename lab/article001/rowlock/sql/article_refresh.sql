-- Refresh one held lock by its id; the article's statement refreshes all of
-- them at once. The predicates:
--   id                       the row that I inserted. The number of changed
--                            rows is not checked, so the loss of a lock that
--                            was deleted as expired is not noticed.
UPDATE t_ds_jdbc_registry_lock SET last_term = ? WHERE id = ?
