-- Article 001's table of locks, with all its columns: DolphinScheduler's.
-- last_term is a time in milliseconds by the holder's clock. The types are the
-- article's: a TIMESTAMP ends at 2038-01-19 03:14:07 UTC, and after that no lock
-- can be acquired or refreshed here.
CREATE TABLE IF NOT EXISTS t_ds_jdbc_registry_lock (
  id               bigint       NOT NULL AUTO_INCREMENT,
  lock_key         varchar(256) NOT NULL,
  lock_owner       varchar(256) NOT NULL,
  last_term        bigint       NOT NULL,
  last_update_time timestamp    NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
  create_time      timestamp    NOT NULL DEFAULT CURRENT_TIMESTAMP,
  PRIMARY KEY (id),
  UNIQUE KEY uk_lock_key (lock_key)
) ENGINE=InnoDB CHARACTER SET ascii COLLATE ascii_bin
