-- Win a lock whose lease has expired (competeLockOnUpdate in article 000; rule
-- 4b of elector/termcas). The predicates:
--   owner ... IS_USED        those of every win: see win_own.sql.
--   term_duration            the beat as read. I have observed this beat for a
--                            whole lease on my own monotonic clock; with the
--                            beat as a predicate this alone is safe, whatever
--                            other clocks show.
--   age >= duration          the database agrees: the second guard, in
--                            microseconds.
-- The index is named because of MariaDB: see renew.sql.
UPDATE distribute_lock FORCE INDEX (uk_data_center_lock_name)
SET owner = ?, address = ?, term = GREATEST(term, ?) + 1, term_duration = 0, duration = ?, gmt_modified = UTC_TIMESTAMP(3),
    nonce = ?, witness_lock = ?, witness_conn = ?, resigned = 0
WHERE data_center = ? AND lock_name = ?
  AND owner = ? AND term = ? AND nonce = ?
  AND (? IS NULL OR (CONNECTION_ID() = ? AND IS_USED_LOCK(?) = CONNECTION_ID()))
  AND term_duration = ?
  AND TIMESTAMPDIFF(MICROSECOND, gmt_modified, UTC_TIMESTAMP(3)) >= duration * 1000
