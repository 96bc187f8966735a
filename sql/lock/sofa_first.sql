-- As sofa_insert.sql, if Migrate has created the row, which then stands for no
-- row. The predicates:
--   term, owner              no node has ever led. Of all that have read this
--                            one changes it.
-- The index is named because of MariaDB: see renew.sql.
UPDATE distribute_lock FORCE INDEX (uk_data_center_lock_name)
SET owner = ?, address = ?, duration = ?, term = 1, term_duration = 0, gmt_modified = UTC_TIMESTAMP(3)
WHERE data_center = ? AND lock_name = ?
  AND term = 0 AND owner = ''
