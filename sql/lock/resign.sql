-- Give up the lock, so that any candidate can win it in its next round. The
-- owner is removed and the term stays. gmt_modified becomes the last valid
-- moment of this leadership; the next leader computes the time without leader
-- from it. The predicates:
--   owner, term              mine: a late resignation must not affect a newer
--                            term.
-- The index is named because of MariaDB: see renew.sql.
UPDATE distribute_lock FORCE INDEX (uk_data_center_lock_name)
SET owner = '', address = '', resigned = 1, gmt_modified = UTC_TIMESTAMP(3), witness_lock = NULL, witness_conn = NULL
WHERE data_center = ? AND lock_name = ?
  AND owner = ? AND term = ?
