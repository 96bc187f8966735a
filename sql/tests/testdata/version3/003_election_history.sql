-- One row an election: who led when, and how long nobody did. The unique key
-- makes the insert repeatable: a term is recorded once.
--   cause          first, resigned, killed, expired, restored
--   leaderless_ms  from the last leader's last valid moment to this insert
CREATE TABLE IF NOT EXISTS election_history (
  id            bigint          NOT NULL AUTO_INCREMENT,
  data_center   varchar(128)    NOT NULL,
  lock_name     varchar(1024)   NOT NULL,
  term          bigint unsigned NOT NULL,
  owner         varchar(512)    NOT NULL,
  previous      varchar(512)    NOT NULL DEFAULT '',
  cause         varchar(32)     NOT NULL,
  leaderless_ms bigint          NOT NULL DEFAULT 0,
  at            timestamp(3)    NOT NULL DEFAULT CURRENT_TIMESTAMP(3),
  PRIMARY KEY (id),
  UNIQUE KEY uk_term (data_center, lock_name, term)
) CHARACTER SET ascii COLLATE ascii_bin
