-- Article 003's table, with all its columns. Its times have whole seconds
-- (datetime), and the reader compares them with its own clock. A datetime
-- does not end in 2038, and has no time zone: these are in the session's.
CREATE TABLE IF NOT EXISTS leader_election (
  elect_key   varchar(255) NOT NULL,
  version     bigint       NOT NULL DEFAULT 0,
  tick_time   datetime     NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
  leader_id   bigint       NOT NULL DEFAULT 0,
  create_time datetime     NOT NULL DEFAULT CURRENT_TIMESTAMP,
  update_time datetime     NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
  PRIMARY KEY (elect_key),
  KEY idx_version (version)
) ENGINE=InnoDB CHARACTER SET ascii COLLATE ascii_bin
