-- A decision of the leader, under its term. The predicates:
--   l.owner, l.term          the lock row says that I lead this term, in the same
--                            statement that writes: two leaders may believe, only one
--                            acts. The join locks the lock row, so an election and
--                            this write wait for each other. It stands first, and is
--                            locked first: with the decision first, as MariaDB reads
--                            it, a write, a seal and a renewal that wait for each
--                            other in a circle cost one of them its connection.
--   s.term, s.seq            the decision I replace, as I read it: nobody came between,
--                            not even a write of mine whose answer I never got.
-- A join and not EXISTS(SELECT ...): both mean the same, the embedded server knows
-- only the join.
UPDATE distribute_lock l
JOIN cluster_state s ON s.data_center = l.data_center AND s.lock_name = l.lock_name
SET s.body = ?, s.term = ?, s.seq = ?, s.nonce = ?, s.gmt_modified = UTC_TIMESTAMP(3)
WHERE s.data_center = ? AND s.lock_name = ? AND s.kind = ? AND s.term = ? AND s.seq = ?
  AND l.owner = ? AND l.term = ?
