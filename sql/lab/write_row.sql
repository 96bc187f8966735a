-- The same by the row of article 001's repaired form. The predicates:
--   r.id, r.owner            the very row by which this leadership was won is there.
UPDATE row_lock r
JOIN lab_write w ON w.lab = r.lock_key
SET w.fenced_stale = w.fenced_stale + IF(w.newest > ?, 1, 0), w.fenced = w.fenced + 1
WHERE r.lock_key = ? AND r.owner = ? AND r.id = ?
