-- Numbers for leaderships that have no term, in the order of their first
-- writes.
CREATE TABLE IF NOT EXISTS lab_leadership (
  id   bigint unsigned NOT NULL AUTO_INCREMENT,
  name varchar(255)    NOT NULL,
  PRIMARY KEY (id),
  UNIQUE KEY uk_name (name)
) ENGINE=InnoDB CHARACTER SET ascii COLLATE ascii_bin
