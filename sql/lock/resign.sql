-- Give the lock back, so that anyone's next round can win at once. The owner stays
-- out of the row, the term stays in. gmt_modified is the last valid moment of this
-- leadership: the next leader counts the leaderless time from it. The predicates:
--   owner, term              mine: a late resignation must not hurt a newer term.
-- The index is named: MariaDB would rather look for the owner, and lock that index
-- before the row, in the way of a winner that changes it after the row: a deadlock.
UPDATE distribute_lock FORCE INDEX (uk_data_center_lock_name)
SET owner = '', address = '', resigned = 1, gmt_modified = UTC_TIMESTAMP(3), witness_lock = NULL, witness_conn = NULL
WHERE data_center = ? AND lock_name = ?
  AND owner = ? AND term = ?
