-- All kinds of one cluster in one statement, so that they are consistent.
SELECT kind, body, term, seq, nonce, gmt_modified
FROM cluster_state
WHERE data_center = ? AND lock_name = ?
ORDER BY kind
