-- An unguarded write of a leader: it is applied whatever has happened since the
-- leader decided to write. stale comes first, because MySQL assigns from left
-- to right and it must be computed with the old newest. The predicates:
--   lab                      the election. That nothing else is checked is the
--                            point.
UPDATE lab_write
SET stale = stale + IF(newest > ?, 1, 0), writes = writes + 1, newest = GREATEST(newest, ?)
WHERE lab = ?
