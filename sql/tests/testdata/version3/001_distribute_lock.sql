-- The lock row that elects. Columns and keys are those of article 000; from
-- address on they are the protocol's own.
--   owner          name@incarnation of the leader, empty when there is none
--   term           grows by one (or more) with each election, never falls
--   term_duration  the beat: renewals counted within the term, from 0
--   duration       the leader's own lease in ms: observers judge by this one
--   gmt_modified   the last renewal, by the database's clock
--   nonce          drawn for each attempt to win, so that a winner who never got
--                  the answer recognises its own row
--   witness_lock   the named lock that the leader holds on the connection
--   witness_conn   with this id; both NULL when there is no witness
--   resigned       the leader left on purpose: anyone may win at once
-- Everything is ascii and compared by byte: a collation that ignores case would
-- take node A for node a, and utf8mb4 would make the article's unique key longer
-- than InnoDB allows. TIMESTAMP and not DATETIME: it is an instant in every
-- session's time zone.
CREATE TABLE IF NOT EXISTS distribute_lock (
  id            bigint          NOT NULL AUTO_INCREMENT,
  data_center   varchar(128)    NOT NULL,
  lock_name     varchar(1024)   NOT NULL,
  owner         varchar(512)    NOT NULL DEFAULT '',
  duration      bigint          NOT NULL,
  term          bigint unsigned NOT NULL DEFAULT 0,
  term_duration bigint unsigned NOT NULL DEFAULT 0,
  gmt_create    timestamp(3)    NOT NULL DEFAULT CURRENT_TIMESTAMP(3),
  gmt_modified  timestamp(3)    NOT NULL DEFAULT CURRENT_TIMESTAMP(3),
  address       varchar(255)    NOT NULL DEFAULT '',
  nonce         varchar(64)     NOT NULL DEFAULT '',
  witness_lock  varchar(64)     NULL,
  witness_conn  bigint unsigned NULL,
  resigned      tinyint         NOT NULL DEFAULT 0,
  PRIMARY KEY (id),
  UNIQUE KEY uk_data_center_lock_name (data_center, lock_name),
  KEY idx_owner (owner)
) CHARACTER SET ascii COLLATE ascii_bin
