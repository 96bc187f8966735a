-- Win from a leader whose lease has expired. The predicates:
--   version                  as read (see win.sql). I have observed this
--                            version for a whole lease on my own monotonic
--                            clock, which alone makes the win safe.
--   age >= lease             the database agrees: the second guard, in
--                            microseconds.
UPDATE leader_version
SET term = GREATEST(version, ?) + 1, version = GREATEST(version, ?) + 1,
    owner = ?, address = ?, lease_ms = ?, tick_time = UTC_TIMESTAMP(3)
WHERE elect_key = ? AND version = ?
  AND TIMESTAMPDIFF(MICROSECOND, tick_time, UTC_TIMESTAMP(3)) >= lease_ms * 1000
