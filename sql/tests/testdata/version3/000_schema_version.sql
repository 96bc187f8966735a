-- One row: the number of the newest schema file that has been applied here. It
-- comes first, so that a program can see that a newer one has been at work
-- before it touches anything else. Every schema file may be run twice, and by
-- three processes at once: that is why each says IF NOT EXISTS.
CREATE TABLE IF NOT EXISTS schema_version (
  id           int          NOT NULL,
  version      int          NOT NULL,
  gmt_modified timestamp(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3),
  PRIMARY KEY (id)
)
