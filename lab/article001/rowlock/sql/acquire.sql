-- Acquire the lock: the unique key refuses a second row, and if one row was
-- changed the lock is mine. IGNORE turns a refusal into a result of zero rows.
-- The id is NULL, for the next value of the counter, or a number above every
-- term that was seen, if the table was restored to an older state.
INSERT IGNORE INTO row_lock (id, lock_key, owner, address, beat, lease_ms, refreshed) VALUES (?, ?, ?, ?, 0, ?, UTC_TIMESTAMP(3))
