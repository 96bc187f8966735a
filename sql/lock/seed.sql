-- A row for the lock, so that an election is always an UPDATE of one row: term 0
-- and no owner. IGNORE, because the row is there in all starts but the first
-- (the article's ON DUPLICATE KEY UPDATE would change nothing either, and take a
-- heavier lock).
INSERT IGNORE INTO distribute_lock (data_center, lock_name, owner, duration, term, term_duration, gmt_create, gmt_modified)
VALUES (?, ?, '', ?, 0, 0, UTC_TIMESTAMP(3), UTC_TIMESTAMP(3))
