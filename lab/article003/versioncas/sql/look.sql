-- The row, and the age of its last tick in microseconds by the database's own
-- clock; the article compares tick_time with the reader's clock.
SELECT version, term, owner, address, lease_ms, TIMESTAMPDIFF(MICROSECOND, tick_time, UTC_TIMESTAMP(3)) AS age_us
FROM leader_version
WHERE elect_key = ?
