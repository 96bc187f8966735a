-- What the lab's leaders write, one row an election:
--   newest         the number of the newest leadership that has written
--   writes, stale  writes without a guard: all, and those that a leadership made after
--                  a newer one's first
--   fenced, fenced_stale   the same for writes that join what elects
-- The numbers are terms, where a way to elect has any, else lab_leadership's.
CREATE TABLE IF NOT EXISTS lab_write (
  lab          varchar(255)    NOT NULL,
  newest       bigint unsigned NOT NULL DEFAULT 0,
  writes       bigint          NOT NULL DEFAULT 0,
  stale        bigint          NOT NULL DEFAULT 0,
  fenced       bigint          NOT NULL DEFAULT 0,
  fenced_stale bigint          NOT NULL DEFAULT 0,
  PRIMARY KEY (lab)
) CHARACTER SET ascii COLLATE ascii_bin
