-- A Kubernetes Lease as a row. version is the resourceVersion; nothing in it is a time,
-- because client-go compares no time in the object with anything.
CREATE TABLE IF NOT EXISTS lab_lease (
  name        varchar(255) NOT NULL,
  holder      varchar(128) NOT NULL,
  lease_ms    bigint       NOT NULL,
  transitions bigint       NOT NULL,
  version     bigint       NOT NULL,
  PRIMARY KEY (name)
) CHARACTER SET ascii COLLATE ascii_bin
