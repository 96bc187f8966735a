-- As write_fenced.sql, with the row of the repaired form of article 001. The
-- predicates:
--   r.id, r.owner            the row with which this leadership was won still
--                            exists.
UPDATE row_lock r
JOIN lab_write w ON w.lab = r.lock_key
SET w.fenced_stale = w.fenced_stale + IF(w.newest > ?, 1, 0), w.fenced = w.fenced + 1
WHERE r.lock_key = ? AND r.owner = ? AND r.id = ?
