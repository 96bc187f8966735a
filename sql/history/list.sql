-- The newest elections first; term < ?: of the terms before one, for the next page.
SELECT term, owner, previous, cause, leaderless_ms, at
FROM election_history
WHERE data_center = ? AND lock_name = ? AND term < ?
ORDER BY term DESC
LIMIT ?
