-- Its locks: a row is a lock. Each refused insert takes an id, too.
CREATE TABLE IF NOT EXISTS lab_dolphin_lock (
  id       bigint       NOT NULL AUTO_INCREMENT,
  lock_key varchar(255) NOT NULL,
  client   varchar(55)  NOT NULL,
  PRIMARY KEY (id),
  UNIQUE KEY uk_lock_key (lock_key)
) CHARACTER SET ascii COLLATE ascii_bin
