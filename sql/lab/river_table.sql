-- river's leader, with a term that the database issues: (leader_id, elected_at). In
-- Postgres these are microseconds; here milliseconds, as all times of ours.
CREATE TABLE IF NOT EXISTS lab_river (
  name       varchar(255) NOT NULL,
  leader_id  varchar(128) NOT NULL,
  elected_at datetime(3)  NOT NULL,
  expires_at datetime(3)  NOT NULL,
  PRIMARY KEY (name)
) CHARACTER SET ascii COLLATE ascii_bin
