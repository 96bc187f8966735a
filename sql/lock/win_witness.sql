-- Win from a leader whose connection is gone (rule 4c of elector/termcas). The predicates:
--   owner, term, nonce       as read: of all who read the same row one changes it,
--                            for it changes all three. The nonce tells two wins of
--                            one name apart.
--   CONNECTION_ID, IS_USED   if there is a witness: this statement runs on the
--                            connection I remember, and that one holds the lock
--                            whose name this statement publishes. A proxy that
--                            hands statements to other connections, or a lock lost
--                            meanwhile, makes it match nothing.
--   witness_lock             as read: a leader that lost its connection and came back
--                            holds another lock by now, and keeps its term.
--   IS_USED_LOCK(old)        I hold the dead leader's lock on this very connection, on
--                            which I have seen the leader hold it: true only on that
--                            server, in that life of it.
-- The index is named: MariaDB would rather look for the owner, and lock that index
-- before the row, in the way of a winner that changes it after the row: a deadlock.
UPDATE distribute_lock FORCE INDEX (uk_data_center_lock_name)
SET owner = ?, address = ?, term = GREATEST(term, ?) + 1, term_duration = 0, duration = ?, gmt_modified = UTC_TIMESTAMP(3),
    nonce = ?, witness_lock = ?, witness_conn = ?, resigned = 0
WHERE data_center = ? AND lock_name = ?
  AND owner = ? AND term = ? AND nonce = ?
  AND (? IS NULL OR (CONNECTION_ID() = ? AND IS_USED_LOCK(?) = CONNECTION_ID()))
  AND witness_lock = ?
  AND IS_USED_LOCK(?) = CONNECTION_ID()
