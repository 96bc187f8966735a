-- After this a read that shows the seal is current: nothing of an older term
-- can be written any more, on whichever server the read before it was. (That an
-- old leader's write changes nothing is due to the fence, not to this.) The
-- decisions stay as they are, and all kinds carry the new leader's term. It is
-- one statement, and may be repeated: a sealed row matches no more. The
-- predicates:
--   l.owner, l.term          the lock row shows that I lead this term (see
--                            write.sql)
--   s.term < mine            the rows that I have not sealed or written yet
UPDATE distribute_lock l
JOIN cluster_state s ON s.data_center = l.data_center AND s.lock_name = l.lock_name
SET s.term = ?, s.seq = ?, s.nonce = ?, s.gmt_modified = UTC_TIMESTAMP(3)
WHERE s.data_center = ? AND s.lock_name = ? AND s.term < ?
  AND l.owner = ? AND l.term = ?
