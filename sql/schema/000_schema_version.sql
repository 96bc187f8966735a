-- One row: the number of the newest schema file that has been applied here.
-- This table is the first, so that a program can detect a newer schema before
-- it changes anything. A schema file may be applied twice, and by three
-- processes at once; therefore each has IF NOT EXISTS.
CREATE TABLE IF NOT EXISTS schema_version (
  id           int          NOT NULL,
  version      int          NOT NULL,
  gmt_modified datetime(3)  NOT NULL DEFAULT (UTC_TIMESTAMP(3)),
  PRIMARY KEY (id)
) ENGINE=InnoDB
