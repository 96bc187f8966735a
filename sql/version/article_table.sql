-- Article 003's table, column by column. The clock in it counts whole seconds
-- (datetime), and its reader compares them with a clock of his own. It is no part of
-- the schema that Migrate keeps: no cluster needs it, and a version of its own would
-- make every older program refuse the database.
-- A datetime knows no 2038, and no time zone: these are the session's.
CREATE TABLE IF NOT EXISTS leader_election (
  elect_key   varchar(255) NOT NULL,
  version     bigint       NOT NULL DEFAULT 0,
  tick_time   datetime     NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
  leader_id   bigint       NOT NULL DEFAULT 0,
  create_time datetime     NOT NULL DEFAULT CURRENT_TIMESTAMP,
  update_time datetime     NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
  PRIMARY KEY (elect_key),
  KEY idx_version (version)
) CHARACTER SET ascii COLLATE ascii_bin
