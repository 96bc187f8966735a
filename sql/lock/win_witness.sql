-- Win from a leader whose connection has ended (rule 4c of elector/termcas).
-- The predicates:
--   owner ... IS_USED        those of every win: see win_own.sql.
--   witness_lock             as read: a leader that lost its connection and has
--                            reacquired its witness holds another lock by now,
--                            and keeps its term.
--   IS_USED_LOCK(old)        this connection holds the dead leader's lock, and
--                            on this connection I have seen the leader hold it.
--                            This can be true only on that server, and until
--                            that server restarts.
-- The index is named because of MariaDB: see renew.sql.
UPDATE distribute_lock FORCE INDEX (uk_data_center_lock_name)
SET owner = ?, address = ?, term = GREATEST(term, ?) + 1, term_duration = 0, duration = ?, gmt_modified = UTC_TIMESTAMP(3),
    nonce = ?, witness_lock = ?, witness_conn = ?, resigned = 0
WHERE data_center = ? AND lock_name = ?
  AND owner = ? AND term = ? AND nonce = ?
  AND (? IS NULL OR (CONNECTION_ID() = ? AND IS_USED_LOCK(?) = CONNECTION_ID()))
  AND witness_lock = ?
  AND IS_USED_LOCK(?) = CONNECTION_ID()
