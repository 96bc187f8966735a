-- Win the next term from myself (rule 2 of elector/termcas). The row names me,
-- but I do not lead its term, because the answer to my win was lost, or I left
-- the term, or a receiver has seen a higher one. No other node can lead
-- it. Its predicates are those of every win:
--   owner, term, nonce       as read. Of all that have read the same row one
--                            changes it, since term and nonce are new then. The nonce
--                            distinguishes two wins of the same name.
--   CONNECTION_ID, IS_USED   if there is a witness: this statement runs on the
--                            connection that I remember, and that connection
--                            holds the lock whose name the statement publishes.
--                            It matches nothing if a proxy sends it on another
--                            connection, or if the lock was lost.
-- The reason to win needs no predicate of its own: the owner as read is this
-- node, with its incarnation. The index is named because of MariaDB: see
-- renew.sql.
UPDATE distribute_lock FORCE INDEX (uk_data_center_lock_name)
SET owner = ?, address = ?, term = GREATEST(term, ?) + 1, term_duration = 0, duration = ?, gmt_modified = UTC_TIMESTAMP(3),
    nonce = ?, witness_lock = ?, witness_conn = ?, resigned = 0
WHERE data_center = ? AND lock_name = ?
  AND owner = ? AND term = ? AND nonce = ?
  AND (? IS NULL OR (CONNECTION_ID() = ? AND IS_USED_LOCK(?) = CONNECTION_ID()))
