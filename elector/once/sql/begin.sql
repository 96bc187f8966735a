-- Begin a run: a win of the next term. The predicates:
--   term                     as read: of all that have read it one begins this
--                            run. So what was read of the last run is still
--                            true: it began in an earlier period, and has ended
--                            or reached its limit.
--   the time                 in the period as read: a statement that is
--                            executed later begins no run of the next one.
-- term_duration is the number of periods without a run, in all. The index is
-- named because of MariaDB: see sql/lock/renew.sql.
UPDATE distribute_lock FORCE INDEX (uk_data_center_lock_name)
SET owner = ?, address = '', term = term + 1, term_duration = ?, duration = ?, resigned = 0, gmt_modified = UTC_TIMESTAMP(3)
WHERE data_center = ? AND lock_name = ?
  AND term = ?
  AND TIMESTAMPDIFF(MICROSECOND, '1990-01-01', UTC_TIMESTAMP(3)) >= ?
  AND TIMESTAMPDIFF(MICROSECOND, '1990-01-01', UTC_TIMESTAMP(3)) < ?
