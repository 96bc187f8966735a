-- The repaired form's rows: a row is a lock, its unique key keeps a second one out.
--   id          the token, and the term: drawn from the table's counter, which never
--               gives a number twice (of InnoDB's before MySQL 8.0 that is not true
--               after a restart)
--   owner       name@incarnation
--   beat        refreshes since the row was inserted
--   lease_ms    how long the holder is good without a refresh
--   refreshed   by the database's clock, in milliseconds
-- Made on demand, like article_table.sql and for the same reason.
CREATE TABLE IF NOT EXISTS row_lock (
  id        bigint unsigned NOT NULL AUTO_INCREMENT,
  lock_key  varchar(256)    NOT NULL,
  owner     varchar(512)    NOT NULL,
  address   varchar(255)    NOT NULL DEFAULT '',
  beat      bigint unsigned NOT NULL DEFAULT 0,
  lease_ms  bigint          NOT NULL,
  refreshed datetime(3)     NOT NULL DEFAULT (UTC_TIMESTAMP(3)),
  PRIMARY KEY (id),
  UNIQUE KEY uk_lock_key (lock_key)
) CHARACTER SET ascii COLLATE ascii_bin
