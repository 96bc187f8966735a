-- Win many locks for one reason, on the connection that the elections of a
-- process share. The predicates:
--   lock_name, SKIP LOCKED   as in renew_all.sql.
--   owner, term, nonce       of each lock as read: see win_own.sql.
--   term_duration            of each lock as read: see win_expired.sql. In a
--                            row that no node renews it does not change.
--   resigned or no owner     for this reason: see win_vacant.sql.
--   age >= duration          for this reason: see win_expired.sql.
--   witness_lock, IS_USED    if the reason is a witness: see win_witness.sql.
--                            The connection that holds it is the one on which
--                            this process has seen the leader hold it, and has
--                            waited for it.
--   owner ... term_duration  again: the row that is changed is compared itself,
--                            if what was read first was not locked.
-- The index is named because of MariaDB: see renew.sql.
UPDATE (
  SELECT id, owner, term, nonce, term_duration FROM distribute_lock FORCE INDEX (uk_data_center_lock_name)
  WHERE data_center = ? AND lock_name IN (?)
    AND (lock_name, owner, term, nonce, term_duration) IN ((?, ?, ?, ?, ?))
    AND (? = 0 OR resigned = 1 OR owner = '')
    AND (? = 0 OR TIMESTAMPDIFF(MICROSECOND, gmt_modified, UTC_TIMESTAMP(3)) >= duration * 1000)
    AND (? = 0 OR (witness_lock = ? AND IS_USED_LOCK(?) = ?))
  LIMIT 1000
  FOR UPDATE SKIP LOCKED) AS theirs
STRAIGHT_JOIN distribute_lock AS l FORCE INDEX (`PRIMARY`) ON l.id = theirs.id
  AND l.owner = theirs.owner AND l.term = theirs.term AND l.nonce = theirs.nonce AND l.term_duration = theirs.term_duration
SET l.owner = ?, l.address = ?, l.term = GREATEST(l.term, ?) + 1, l.term_duration = 0, l.duration = ?, l.gmt_modified = UTC_TIMESTAMP(3),
    l.nonce = ?, l.witness_lock = ?, l.witness_conn = IF(CONNECTION_ID() = ? AND IS_USED_LOCK(?) = CONNECTION_ID(), ?, NULL), l.resigned = 0
