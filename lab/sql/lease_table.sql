-- A Kubernetes Lease as a row. version is the resourceVersion. There is no time
-- in it, because client-go does not compare the times in the object with
-- anything.
CREATE TABLE IF NOT EXISTS lab_lease (
  name        varchar(255) NOT NULL,
  holder      varchar(128) NOT NULL,
  lease_ms    bigint       NOT NULL,
  transitions bigint       NOT NULL,
  version     bigint       NOT NULL,
  PRIMARY KEY (name)
) ENGINE=InnoDB CHARACTER SET ascii COLLATE ascii_bin
