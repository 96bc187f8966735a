-- The newest elections first.
SELECT term, owner, previous, cause, leaderless_ms, at
FROM election_history
WHERE data_center = ? AND lock_name = ?
ORDER BY term DESC
LIMIT ?
