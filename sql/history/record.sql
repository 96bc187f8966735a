-- Record an election, fenced: the row is written only while the lock row names
-- the recorded owner and term, so the history cannot contain a node that never
-- led. IGNORE: a term is recorded once, and the statement may be repeated after
-- a lost answer.
INSERT IGNORE INTO election_history (data_center, lock_name, term, owner, previous, cause, leaderless_ms, at)
SELECT l.data_center, l.lock_name, l.term, l.owner, ?, ?, ?, UTC_TIMESTAMP(3)
FROM distribute_lock l
WHERE l.data_center = ? AND l.lock_name = ? AND l.owner = ? AND l.term = ?
