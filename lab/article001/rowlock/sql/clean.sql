-- Remove a row whose lease has expired; any node may do so. The next insert
-- then succeeds. The predicates:
--   id, beat                 as read: a holder that has refreshed since keeps
--                            its lock.
--   age >= lease             by the database's clock, which has also written
--                            refreshed, and with the holder's own lease.
DELETE FROM row_lock
WHERE id = ? AND beat = ?
  AND TIMESTAMPDIFF(MICROSECOND, refreshed, UTC_TIMESTAMP(3)) >= lease_ms * 1000
