-- The issued term as a number (RETURNING in the original). The predicates:
--   leader_id                my own.
SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', elected_at) AS term FROM lab_river WHERE name = ? AND leader_id = ?
