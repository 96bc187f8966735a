-- As 004, for the schema version, the last table with a time.
ALTER TABLE schema_version
  MODIFY gmt_modified datetime(3) NOT NULL DEFAULT (UTC_TIMESTAMP(3))
