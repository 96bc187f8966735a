-- Extend the leadership. The predicates:
--   leader_id, elected_at    my term, and no later one of mine.
--   expires_at >= now        an expired lease is not extended.
-- TIMESTAMPADD, because time + INTERVAL is in whole seconds on the embedded
-- server.
UPDATE lab_river
SET expires_at = TIMESTAMPADD(MICROSECOND, ?, UTC_TIMESTAMP(3))
WHERE name = ? AND leader_id = ? AND TIMESTAMPDIFF(MICROSECOND, '1970-01-01', elected_at) = ?
  AND expires_at >= UTC_TIMESTAMP(3)
