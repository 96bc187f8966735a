-- Up to version 3 the times of the lock row were TIMESTAMP, which ends at
-- 2038-01-19 03:14:07 UTC; after that no renewal could have been written. 001
-- explains the present type. MySQL converts a TIMESTAMP in the time zone of the
-- session that alters it; Conclave's sessions are at +00:00, so the instant
-- does not change. On a DATETIME column this statement has no effect. The
-- statements of version 3 also work with DATETIME, so a cluster of that version
-- continues to run during this migration and after it.
ALTER TABLE distribute_lock
  MODIFY gmt_create   datetime(3) NOT NULL DEFAULT (UTC_TIMESTAMP(3)),
  MODIFY gmt_modified datetime(3) NOT NULL DEFAULT (UTC_TIMESTAMP(3))
