-- What the lab's leaders write, one row for each election:
--   newest         the number of the newest leadership that has written
--   writes, stale  unguarded writes: all, and those that a leadership made
--                  after the first write of a newer one
--   fenced, fenced_stale   the same for writes that join the row of the
--                          election
-- The numbers are terms, or the times at which the leaderships began if an
-- election has no terms.
CREATE TABLE IF NOT EXISTS lab_write (
  lab          varchar(255)    NOT NULL,
  newest       bigint unsigned NOT NULL DEFAULT 0,
  writes       bigint          NOT NULL DEFAULT 0,
  stale        bigint          NOT NULL DEFAULT 0,
  fenced       bigint          NOT NULL DEFAULT 0,
  fenced_stale bigint          NOT NULL DEFAULT 0,
  PRIMARY KEY (lab)
) ENGINE=InnoDB CHARACTER SET ascii COLLATE ascii_bin
