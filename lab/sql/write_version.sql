-- As write_fenced.sql, with the row of the repaired form of article 003. The
-- predicates:
--   v.owner, v.term          the row names this owner and term, in the same
--                            statement that writes.
UPDATE leader_version v
JOIN lab_write w ON w.lab = v.elect_key
SET w.fenced_stale = w.fenced_stale + IF(w.newest > ?, 1, 0), w.fenced = w.fenced + 1
WHERE v.elect_key = ? AND v.owner = ? AND v.term = ?
