-- A row for a kind, so that every write is an UPDATE; epoch (0, 0) and no body.
INSERT IGNORE INTO cluster_state (data_center, lock_name, kind, body, term, seq, nonce, gmt_modified)
VALUES (?, ?, ?, '', 0, 0, '', UTC_TIMESTAMP(3))
