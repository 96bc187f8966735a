-- DolphinScheduler's locks, one row for each lock that is held. A refused
-- insert uses up an id as well.
CREATE TABLE IF NOT EXISTS lab_dolphin_lock (
  id       bigint       NOT NULL AUTO_INCREMENT,
  lock_key varchar(255) NOT NULL,
  client   varchar(55)  NOT NULL,
  PRIMARY KEY (id),
  UNIQUE KEY uk_lock_key (lock_key)
) ENGINE=InnoDB CHARACTER SET ascii COLLATE ascii_bin
