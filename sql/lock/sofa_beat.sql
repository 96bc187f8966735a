-- The original's heartbeat (ownerHeartbeat) as article 000 has it; the released
-- version names only the owner. The predicates:
--   owner, term,             as my last statement left them.
--   term_duration            
--   age < duration           in whole seconds. Once the age has reached the
--                            duration, the owner may not renew, and no node may
--                            win for another second: after a late beat the lock
--                            has no leader for a while.
-- The index is named because of MariaDB: see renew.sql.
UPDATE distribute_lock FORCE INDEX (uk_data_center_lock_name)
SET term_duration = term_duration + 1, gmt_modified = UTC_TIMESTAMP(3)
WHERE data_center = ? AND lock_name = ?
  AND owner = ? AND term = ? AND term_duration = ?
  AND TIMESTAMPDIFF(SECOND, gmt_modified, UTC_TIMESTAMP()) < duration / 1000
