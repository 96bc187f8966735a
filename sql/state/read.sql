-- All kinds of one cluster in one statement, so that they are consistent, and
-- the largest statement that a new session may send.
SELECT kind, body, term, seq, nonce, gmt_modified, @@GLOBAL.max_allowed_packet
FROM cluster_state
WHERE data_center = ? AND lock_name = ?
ORDER BY kind
