-- For a table that was created by an older program: see
-- sql/schema/004_lock_times.sql.
ALTER TABLE row_lock
  MODIFY refreshed datetime(3) NOT NULL DEFAULT (UTC_TIMESTAMP(3))
