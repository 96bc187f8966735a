-- The run has returned, with this failure or none. The owner and the time at
-- which it began stay, for those who look. The predicates:
--   owner, term              the run: its end must not affect a later one.
-- The index is named because of MariaDB: see sql/lock/renew.sql.
UPDATE distribute_lock FORCE INDEX (uk_data_center_lock_name)
SET resigned = 1, address = ?
WHERE data_center = ? AND lock_name = ?
  AND owner = ? AND term = ?
