-- The row, and how old its last tick is by the database's own clock, in microseconds:
-- the article compares its tick_time with the reader's clock.
SELECT version, term, owner, address, lease_ms, TIMESTAMPDIFF(MICROSECOND, tick_time, UTC_TIMESTAMP(3)) AS age_us
FROM leader_version
WHERE elect_key = ?
