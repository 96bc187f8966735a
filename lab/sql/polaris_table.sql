-- Polaris's table. mtime has whole seconds and is set automatically by each
-- update.
CREATE TABLE IF NOT EXISTS lab_polaris (
  elect_key varchar(255) NOT NULL,
  version   bigint       NOT NULL DEFAULT 0,
  leader    varchar(128) NOT NULL,
  mtime     timestamp    NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
  PRIMARY KEY (elect_key)
) ENGINE=InnoDB CHARACTER SET ascii COLLATE ascii_bin
