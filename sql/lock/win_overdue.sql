-- Win a lock that has not been renewed for three leases of my own observation
-- (rule 4b of elector/termcas): as win_expired, without the database's clock. A database clock
-- that was set back an hour would stop elections for an hour. The predicates:
--   owner, term, nonce       as read: of all who read the same row one changes it,
--                            for it changes all three. The nonce tells two wins of
--                            one name apart.
--   CONNECTION_ID, IS_USED   if there is a witness: this statement runs on the
--                            connection I remember, and that one holds the lock
--                            whose name this statement publishes. A proxy that
--                            hands statements to other connections, or a lock lost
--                            meanwhile, makes it match nothing.
--   term_duration            the beat as read: it alone makes this safe.
-- The index is named: MariaDB would rather look for the owner, and lock that index
-- before the row, in the way of a winner that changes it after the row: a deadlock.
UPDATE distribute_lock FORCE INDEX (uk_data_center_lock_name)
SET owner = ?, address = ?, term = GREATEST(term, ?) + 1, term_duration = 0, duration = ?, gmt_modified = UTC_TIMESTAMP(3),
    nonce = ?, witness_lock = ?, witness_conn = ?, resigned = 0
WHERE data_center = ? AND lock_name = ?
  AND owner = ? AND term = ? AND nonce = ?
  AND (? IS NULL OR (CONNECTION_ID() = ? AND IS_USED_LOCK(?) = CONNECTION_ID()))
  AND term_duration = ?
