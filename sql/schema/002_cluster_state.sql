-- What the leader has decided, one row for each kind: table, members,
-- blacklist, switches, freeze, config. Each kind is a single row, so that every
-- decision is one statement without a transaction around it. (A leader that is
-- stopped inside a transaction would block all others.)
--   body        JSON, written by the leader
--   term, seq   the epoch of the decision
--   nonce       random for each write, to recognise a write whose answer was
--               lost
CREATE TABLE IF NOT EXISTS cluster_state (
  data_center  varchar(128)    CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  lock_name    varchar(1024)   CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  kind         varchar(32)     CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  body         longtext        CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  term         bigint unsigned NOT NULL DEFAULT 0,
  seq          bigint unsigned NOT NULL DEFAULT 0,
  nonce        varchar(64)     CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT '',
  gmt_modified datetime(3)     NOT NULL DEFAULT (UTC_TIMESTAMP(3)),
  PRIMARY KEY (data_center, lock_name, kind)
) ENGINE=InnoDB
