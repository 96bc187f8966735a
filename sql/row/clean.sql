-- Remove a row whose lease is over, whoever I am: the next insert works. The predicates:
--   id, beat                 as read: a holder that has refreshed since keeps its lock.
--   age >= lease             by the clock of the database, which has also written
--                            refreshed, and for the lease that the holder has said.
DELETE FROM row_lock
WHERE id = ? AND beat = ?
  AND TIMESTAMPDIFF(MICROSECOND, refreshed, UTC_TIMESTAMP(3)) >= lease_ms * 1000
