-- Win a lock that I have observed without a renewal for three leases (rule 4b
-- of elector/termcas): as win_expired, without the database's clock. Otherwise
-- a database clock that was set back an hour would prevent elections for an
-- hour. The predicates:
--   owner ... IS_USED        those of every win: see win_own.sql.
--   term_duration            the beat as read: this alone makes the win safe.
-- The index is named because of MariaDB: see renew.sql.
UPDATE distribute_lock FORCE INDEX (uk_data_center_lock_name)
SET owner = ?, address = ?, term = GREATEST(term, ?) + 1, term_duration = 0, duration = ?, gmt_modified = UTC_TIMESTAMP(3),
    nonce = ?, witness_lock = ?, witness_conn = ?, resigned = 0
WHERE data_center = ? AND lock_name = ?
  AND owner = ? AND term = ? AND nonce = ?
  AND (? IS NULL OR (CONNECTION_ID() = ? AND IS_USED_LOCK(?) = CONNECTION_ID()))
  AND term_duration = ?
