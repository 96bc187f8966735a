-- A decision of the leader, under its term. The predicates:
--   l.owner, l.term          the lock row shows that I lead this term, in the
--                            same statement that writes: two nodes may believe
--                            they lead, but at most one can write. The join
--                            locks the lock row, so an election and this write
--                            wait for each other. The lock row comes first in
--                            the join and is locked first. No server promises
--                            that; TestStatements_DoNotDeadlockEachOther checks
--                            it on each. With the decision first, a write, a
--                            seal and a renewal deadlocked on MariaDB, which
--                            costs one of them its connection.
--   s.term, s.seq            the decision that I replace, as I read it: nothing
--                            was written since, not even by a write of mine
--                            whose answer was lost.
-- A join and not EXISTS (SELECT ...): both mean the same, and the embedded
-- server supports only the join.
UPDATE distribute_lock l
JOIN cluster_state s ON s.data_center = l.data_center AND s.lock_name = l.lock_name
SET s.body = ?, s.term = ?, s.seq = ?, s.nonce = ?, s.gmt_modified = UTC_TIMESTAMP(3)
WHERE s.data_center = ? AND s.lock_name = ? AND s.kind = ? AND s.term = ? AND s.seq = ?
  AND l.owner = ? AND l.term = ?
