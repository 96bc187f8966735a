-- All kinds of one cluster, in one statement: one consistent view.
SELECT kind, body, term, seq, nonce, gmt_modified
FROM cluster_state
WHERE data_center = ? AND lock_name = ?
ORDER BY kind
