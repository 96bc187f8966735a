-- A leader that lost its pinned connection renews on a new one, and swaps the
-- witness in the same statement. The predicates:
--   owner, term              still mine: otherwise somebody won meanwhile.
--   witness_lock <=> old     the witness I replace (NULL-safe: there may be none). A
--                            follower's win names the old lock too: the row decides
--                            which of us was first.
--   term_duration IN         the last beat that I know of, or one more: the renewal
--                            that was under way when the connection broke may have
--                            landed. The beat rises by two, so that it matches nothing
--                            if it lands later.
--   CONNECTION_ID, IS_USED   as in the wins: published is what is held.
-- The index is named: MariaDB would rather look for the owner, and lock that index
-- before the row, in the way of a winner that changes it after the row: a deadlock.
UPDATE distribute_lock FORCE INDEX (uk_data_center_lock_name)
SET term_duration = ?, gmt_modified = UTC_TIMESTAMP(3), witness_lock = ?, witness_conn = ?
WHERE data_center = ? AND lock_name = ?
  AND owner = ? AND term = ? AND witness_lock <=> ? AND term_duration IN (?, ?)
  AND (? IS NULL OR (CONNECTION_ID() = ? AND IS_USED_LOCK(?) = CONNECTION_ID()))
