-- The row of the repaired form: one number orders everything that happens to
-- it.
--   version       rises by one with each win and each renewal, and never falls
--   term          the version with which this leadership began; version - term
--                 is its beat
--   owner         name@incarnation; empty if there is no leader. A random
--                 number (the article's leader_id) identifies neither the node
--                 nor its address
--   lease_ms      the leader's own lease; observers use this one
--   tick_time     the last win or renewal, by the database's clock, in
--                 milliseconds
CREATE TABLE IF NOT EXISTS leader_version (
  elect_key   varchar(255)    NOT NULL,
  version     bigint unsigned NOT NULL DEFAULT 0,
  term        bigint unsigned NOT NULL DEFAULT 0,
  owner       varchar(512)    NOT NULL DEFAULT '',
  address     varchar(255)    NOT NULL DEFAULT '',
  lease_ms    bigint          NOT NULL DEFAULT 0,
  tick_time   datetime(3)     NOT NULL DEFAULT (UTC_TIMESTAMP(3)),
  create_time datetime(3)     NOT NULL DEFAULT (UTC_TIMESTAMP(3)),
  PRIMARY KEY (elect_key)
) ENGINE=InnoDB CHARACTER SET ascii COLLATE ascii_bin
