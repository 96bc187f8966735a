-- Resign. The predicates:
--   leader_id, elected_at    my term: a later one is not affected.
DELETE FROM lab_river
WHERE name = ? AND leader_id = ? AND TIMESTAMPDIFF(MICROSECOND, '1970-01-01', elected_at) = ?
