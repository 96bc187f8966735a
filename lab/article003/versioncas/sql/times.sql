-- For a table that was created by an older program: see
-- sql/schema/004_lock_times.sql.
ALTER TABLE leader_version
  MODIFY tick_time   datetime(3) NOT NULL DEFAULT (UTC_TIMESTAMP(3)),
  MODIFY create_time datetime(3) NOT NULL DEFAULT (UTC_TIMESTAMP(3))
