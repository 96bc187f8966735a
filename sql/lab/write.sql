-- An unguarded write of a leader: it lands whatever has happened since it was decided.
-- stale comes first, because MySQL assigns from left to right and it must be judged by
-- newest as it was. The predicates:
--   lab                      whose election; nothing else is asked, that is the point.
UPDATE lab_write
SET stale = stale + IF(newest > ?, 1, 0), writes = writes + 1, newest = GREATEST(newest, ?)
WHERE lab = ?
