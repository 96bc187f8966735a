-- A row for the lock, with term 0 and no owner, so that an election is always
-- an UPDATE of one row. IGNORE, because the row exists at every start but the
-- first. (The article's ON DUPLICATE KEY UPDATE would change nothing either,
-- and take a heavier lock.)
INSERT IGNORE INTO distribute_lock (data_center, lock_name, owner, duration, term, term_duration, gmt_create, gmt_modified)
VALUES (?, ?, '', ?, 0, 0, UTC_TIMESTAMP(3), UTC_TIMESTAMP(3))
