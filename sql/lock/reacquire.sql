-- The renewal of a leader that has lost its pinned connection: on a new
-- connection, it also replaces the witness. The predicates:
--   owner, term              still mine; otherwise another node has won
--                            meanwhile.
--   witness_lock <=> old     the witness that I replace (NULL-safe: there may
--                            be none). A follower's win names the old lock too,
--                            so the row decides which of us was first.
--   term_duration IN         the last beat that I know of, or one more: the
--                            renewal in progress when the connection broke may
--                            have been applied. The beat rises by two, so that
--                            this renewal matches nothing if it is applied
--                            later.
--   CONNECTION_ID, IS_USED   as in the wins: the lock that is published is
--                            held.
-- The index is named because of MariaDB: see renew.sql.
UPDATE distribute_lock FORCE INDEX (uk_data_center_lock_name)
SET term_duration = ?, gmt_modified = UTC_TIMESTAMP(3), witness_lock = ?, witness_conn = ?
WHERE data_center = ? AND lock_name = ?
  AND owner = ? AND term = ? AND witness_lock <=> ? AND term_duration IN (?, ?)
  AND (? IS NULL OR (CONNECTION_ID() = ? AND IS_USED_LOCK(?) = CONNECTION_ID()))
