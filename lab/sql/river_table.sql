-- river's leader. Its term is issued by the database: (leader_id, elected_at).
-- The times have microseconds in Postgres and milliseconds here, as in all
-- tables of Conclave.
CREATE TABLE IF NOT EXISTS lab_river (
  name       varchar(255) NOT NULL,
  leader_id  varchar(128) NOT NULL,
  elected_at datetime(3)  NOT NULL,
  expires_at datetime(3)  NOT NULL,
  PRIMARY KEY (name)
) ENGINE=InnoDB CHARACTER SET ascii COLLATE ascii_bin
