-- The original's way to compete when there is no row (competeLockOnInsert in
-- article 000): term 1, term_duration 0. On a duplicate key nothing changes; a
-- read shows which node has inserted the row.
INSERT INTO distribute_lock (data_center, lock_name, owner, address, duration, term, term_duration, gmt_create, gmt_modified)
VALUES (?, ?, ?, ?, ?, 1, 0, UTC_TIMESTAMP(3), UTC_TIMESTAMP(3))
ON DUPLICATE KEY UPDATE id = id
