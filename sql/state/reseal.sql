-- A new leader takes a decision of the last one over as its own, unchanged: from
-- here on no write of an older term can match. The predicates are those of
-- write.sql; the body is not touched.
UPDATE cluster_state s
JOIN distribute_lock l ON l.data_center = s.data_center AND l.lock_name = s.lock_name
SET s.term = ?, s.seq = ?, s.nonce = ?, s.gmt_modified = NOW(3)
WHERE s.data_center = ? AND s.lock_name = ? AND s.kind = ? AND s.term = ? AND s.seq = ?
  AND l.owner = ? AND l.term = ?
