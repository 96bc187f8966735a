-- The holder of the lock, and the age of its last refresh by the database's own
-- clock.
SELECT id, owner, beat, lease_ms, TIMESTAMPDIFF(MICROSECOND, refreshed, UTC_TIMESTAMP(3)) AS age_us
FROM row_lock
WHERE lock_key = ?
