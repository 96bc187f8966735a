-- Acquire: the unique key refuses a second row, and one row changed says that the
-- lock is mine. IGNORE makes a refusal a result. The id is NULL, and then the next one
-- of the counter; or a number above every term that was seen, when the table has been
-- set back behind it.
INSERT IGNORE INTO row_lock (id, lock_key, owner, address, beat, lease_ms, refreshed) VALUES (?, ?, ?, ?, 0, ?, UTC_TIMESTAMP(3))
