-- A new leader takes over, unchanged, every decision of the last ones: from here on
-- all kinds carry its term. One statement, so that one write seals a term; it may be
-- repeated, since what it has sealed no longer matches. The predicates:
--   l.owner, l.term          the lock row says that I lead this term (see write.sql)
--   s.term < mine            whatever I have not sealed or written yet
UPDATE distribute_lock l
JOIN cluster_state s ON s.data_center = l.data_center AND s.lock_name = l.lock_name
SET s.term = ?, s.seq = ?, s.nonce = ?, s.gmt_modified = UTC_TIMESTAMP(3)
WHERE s.data_center = ? AND s.lock_name = ? AND s.term < ?
  AND l.owner = ? AND l.term = ?
