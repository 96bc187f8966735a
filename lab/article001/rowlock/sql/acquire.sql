-- Acquire the lock: the unique key refuses a second row, and if one row was
-- changed the lock is mine. IGNORE turns a refusal into a result of zero rows.
INSERT IGNORE INTO row_lock (lock_key, owner, beat, lease_ms, refreshed) VALUES (?, ?, 0, ?, UTC_TIMESTAMP(3))
