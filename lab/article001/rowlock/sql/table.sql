-- The rows of the repaired form: a row is a held lock, and its unique key
-- refuses a second one.
--   id          the token: the table's counter, which never issues a number
--               twice (except InnoDB's before MySQL 8.0 after a restart)
--   owner       name@incarnation
--   beat        the number of refreshes since the row was inserted
--   lease_ms    how long the lock is held without a refresh
--   refreshed   by the database's clock, in milliseconds
CREATE TABLE IF NOT EXISTS row_lock (
  id        bigint unsigned NOT NULL AUTO_INCREMENT,
  lock_key  varchar(256)    NOT NULL,
  owner     varchar(512)    NOT NULL,
  beat      bigint unsigned NOT NULL DEFAULT 0,
  lease_ms  bigint          NOT NULL,
  refreshed datetime(3)     NOT NULL DEFAULT (UTC_TIMESTAMP(3)),
  PRIMARY KEY (id),
  UNIQUE KEY uk_lock_key (lock_key)
) ENGINE=InnoDB CHARACTER SET ascii COLLATE ascii_bin
