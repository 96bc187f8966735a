-- Refresh an ephemeral value. The predicates:
--   id                       the row that I put.
UPDATE t_ds_jdbc_registry_data SET last_term = ? WHERE id = ?
