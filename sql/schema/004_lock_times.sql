-- Up to version 3 the times of the lock row were TIMESTAMP, which ends at
-- 2038-01-19 03:14:07 UTC: no renewal could have been written after it. See 001 for
-- what they are now. A TIMESTAMP is turned into the time of the session that changes
-- it, and every session of ours is at +00:00: the instant stays. On a DATETIME this
-- changes nothing. The statements of version 3 judge such a column rightly, so a
-- cluster of the older program goes on while this runs, and after it.
ALTER TABLE distribute_lock
  MODIFY gmt_create   datetime(3) NOT NULL DEFAULT (UTC_TIMESTAMP(3)),
  MODIFY gmt_modified datetime(3) NOT NULL DEFAULT (UTC_TIMESTAMP(3))
