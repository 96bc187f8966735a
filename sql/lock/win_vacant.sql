-- Win a lock that no node holds (rule 4a of elector/termcas). The predicates:
--   owner ... IS_USED        those of every win: see win_own.sql.
--   resigned or no owner     the reason: the leader resigned, or there was
--                            none.
-- The index is named because of MariaDB: see renew.sql.
UPDATE distribute_lock FORCE INDEX (uk_data_center_lock_name)
SET owner = ?, address = ?, term = GREATEST(term, ?) + 1, term_duration = 0, duration = ?, gmt_modified = UTC_TIMESTAMP(3),
    nonce = ?, witness_lock = ?, witness_conn = ?, resigned = 0
WHERE data_center = ? AND lock_name = ?
  AND owner = ? AND term = ? AND nonce = ?
  AND (? IS NULL OR (CONNECTION_ID() = ? AND IS_USED_LOCK(?) = CONNECTION_ID()))
  AND (resigned = 1 OR owner = '')
