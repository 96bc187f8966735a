-- A new leader takes over all decisions of the terms before, unchanged: from
-- now on all kinds carry its term. This is one statement, so that a single
-- write seals the terms. It may be repeated, since a sealed row no longer
-- matches. The predicates:
--   l.owner, l.term          the lock row shows that I lead this term (see
--                            write.sql)
--   s.term < mine            the rows that I have not sealed or written yet
UPDATE distribute_lock l
JOIN cluster_state s ON s.data_center = l.data_center AND s.lock_name = l.lock_name
SET s.term = ?, s.seq = ?, s.nonce = ?, s.gmt_modified = UTC_TIMESTAMP(3)
WHERE s.data_center = ? AND s.lock_name = ? AND s.term < ?
  AND l.owner = ? AND l.term = ?
