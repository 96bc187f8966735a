-- For a table that an older program has made: see schema/004_lock_times.sql.
ALTER TABLE row_lock
  MODIFY refreshed datetime(3) NOT NULL DEFAULT (UTC_TIMESTAMP(3))
