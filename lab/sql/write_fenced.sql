-- A write of a leader under its term, with the row of article 000. The
-- predicates:
--   l.owner, l.term          the lock row names this owner and term, in the
--                            same statement that writes. It comes first in the
--                            join and is locked first: see
--                            sql/state/write.sql.
--   w.lab                    the lock's name: one row.
UPDATE distribute_lock l
JOIN lab_write w ON w.lab = l.lock_name
SET w.fenced_stale = w.fenced_stale + IF(w.newest > ?, 1, 0), w.fenced = w.fenced + 1
WHERE l.data_center = ? AND l.lock_name = ? AND l.owner = ? AND l.term = ?
