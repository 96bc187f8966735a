-- A new leader takes a decision of the last one over as its own, unchanged: from
-- here on no write of an older term can match. The predicates are those of
-- write.sql; the body is not touched.
UPDATE distribute_lock l
JOIN cluster_state s ON s.data_center = l.data_center AND s.lock_name = l.lock_name
SET s.term = ?, s.seq = ?, s.nonce = ?, s.gmt_modified = UTC_TIMESTAMP(3)
WHERE s.data_center = ? AND s.lock_name = ? AND s.kind = ? AND s.term = ? AND s.seq = ?
  AND l.owner = ? AND l.term = ?
