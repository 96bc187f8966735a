-- The original's heartbeat, in the article's form (000): the one that ships names the
-- owner only. The predicates:
--   owner, term,             as my last statement left them.
--   term_duration
--   age < duration           in whole seconds. From there on the owner may not renew, and
--                            nobody may win for another second: a leader that is late
--                            leaves the lock to nobody, for a while.
-- The index is named for MariaDB's sake: see renew.sql.
UPDATE distribute_lock FORCE INDEX (uk_data_center_lock_name)
SET term_duration = term_duration + 1, gmt_modified = UTC_TIMESTAMP(3)
WHERE data_center = ? AND lock_name = ?
  AND owner = ? AND term = ? AND term_duration = ?
  AND TIMESTAMPDIFF(SECOND, gmt_modified, UTC_TIMESTAMP()) < duration / 1000
