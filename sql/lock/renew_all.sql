-- The beats of many leaders in one process, on the connection that they share.
-- It publishes that connection's witness in each row. The predicates:
--   lock_name                the locks, found by the index, so that no other
--                            row is locked. The lists are repeated.
--   owner, term,             of each lock as renew.sql has them: of two
--   term_duration            statements with the same beat one is applied.
--   SKIP LOCKED              a row that another client has locked is left out,
--                            and delays no other. LIMIT makes MySQL read the
--                            rows first; STRAIGHT_JOIN and the second index
--                            make the servers lock no other then.
--   owner, term,             again: the row that is changed is compared itself,
--   term_duration            if what was read first was not locked.
-- The connection is published only if it is this one and holds the lock: other
-- nodes do not wait for a lock without one. Only this statement, on this
-- connection, leaves that beat with that name of a witness: a read on it shows
-- which rows were renewed. The index is named because of MariaDB: see renew.sql.
UPDATE (
  SELECT id, owner, term, term_duration FROM distribute_lock FORCE INDEX (uk_data_center_lock_name)
  WHERE data_center = ? AND lock_name IN (?)
    AND (lock_name, owner, term, term_duration) IN ((?, ?, ?, ?))
  LIMIT 1000
  FOR UPDATE SKIP LOCKED) AS mine
STRAIGHT_JOIN distribute_lock AS l FORCE INDEX (`PRIMARY`) ON l.id = mine.id
  AND l.owner = mine.owner AND l.term = mine.term AND l.term_duration = mine.term_duration
SET l.term_duration = l.term_duration + 1, l.gmt_modified = UTC_TIMESTAMP(3), l.witness_lock = ?, l.witness_conn = IF(CONNECTION_ID() = ? AND IS_USED_LOCK(?) = CONNECTION_ID(), ?, NULL)
