-- What the leader decides, one row a kind: table, members, blacklist, switches,
-- freeze. A row and not a table of rows, so that every decision is one statement
-- that needs no transaction around it (a leader that is stopped inside a
-- transaction would stop everybody).
--   body   JSON, written by the leader, readable by people
--   term, seq   the epoch: which decision of which leader this is
--   nonce  drawn for each write, to recognise one whose answer was lost
CREATE TABLE IF NOT EXISTS cluster_state (
  data_center  varchar(128)    CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  lock_name    varchar(1024)   CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  kind         varchar(32)     CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  body         longtext        CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  term         bigint unsigned NOT NULL DEFAULT 0,
  seq          bigint unsigned NOT NULL DEFAULT 0,
  nonce        varchar(64)     CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT '',
  gmt_modified timestamp(3)    NOT NULL DEFAULT CURRENT_TIMESTAMP(3),
  PRIMARY KEY (data_center, lock_name, kind)
)
