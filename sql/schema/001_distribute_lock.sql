-- The lock row that elects. The columns up to gmt_modified and the keys are
-- those of article 000; the columns from address on are Conclave's own.
--   owner          name@incarnation of the leader; empty if there is none
--   term           rises with each election, by at least one; never falls
--   term_duration  the beat: the number of renewals in the term, from 0
--   duration       the leader's own lease in ms; observers use this one
--   gmt_modified   the last renewal, by the database's clock
--   nonce          random for each attempt to win, so that a winner that did
--                  not get the answer recognises its own row
--   witness_lock,  the named lock that the leader holds, and the id of the
--   witness_conn   connection on which it holds it; NULL if there is no witness
--   resigned       the leader has resigned: any candidate may win at once
-- The rows of jobs use these columns as elector/once/doc.go has it.
-- Texts are ascii and compared by byte. A collation that ignores case would
-- confuse the nodes A and a, and with utf8mb4 the article's unique key would be
-- longer than InnoDB allows. Times are DATETIME, which ends in the year 9999;
-- TIMESTAMP ends in 2038. A DATETIME means an instant here because each
-- statement uses UTC_TIMESTAMP, whatever the session's time zone is. NOW()
-- would depend on it.
CREATE TABLE IF NOT EXISTS distribute_lock (
  id            bigint          NOT NULL AUTO_INCREMENT,
  data_center   varchar(128)    NOT NULL,
  lock_name     varchar(1024)   NOT NULL,
  owner         varchar(512)    NOT NULL DEFAULT '',
  duration      bigint          NOT NULL,
  term          bigint unsigned NOT NULL DEFAULT 0,
  term_duration bigint unsigned NOT NULL DEFAULT 0,
  gmt_create    datetime(3)     NOT NULL DEFAULT (UTC_TIMESTAMP(3)),
  gmt_modified  datetime(3)     NOT NULL DEFAULT (UTC_TIMESTAMP(3)),
  address       varchar(255)    NOT NULL DEFAULT '',
  nonce         varchar(64)     NOT NULL DEFAULT '',
  witness_lock  varchar(64)     NULL,
  witness_conn  bigint unsigned NULL,
  resigned      tinyint         NOT NULL DEFAULT 0,
  PRIMARY KEY (id),
  UNIQUE KEY uk_data_center_lock_name (data_center, lock_name),
  KEY idx_owner (owner)
) ENGINE=InnoDB CHARACTER SET ascii COLLATE ascii_bin
