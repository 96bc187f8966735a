-- The same where Migrate has made the row: it stands for no row. The predicates:
--   term, owner              nobody has ever led. Of all who read that one changes it.
-- The index is named for MariaDB's sake: see renew.sql.
UPDATE distribute_lock FORCE INDEX (uk_data_center_lock_name)
SET owner = ?, address = ?, duration = ?, term = 1, term_duration = 0, gmt_modified = UTC_TIMESTAMP(3)
WHERE data_center = ? AND lock_name = ?
  AND term = 0 AND owner = ''
