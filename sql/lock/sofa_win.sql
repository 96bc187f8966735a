-- The original's way to compete by update (competeLockOnUpdate in article 000).
-- The predicates:
--   owner, term,             as read. Of all that have read the same row one
--   term_duration            changes it, since it changes all three. After a
--                            beat in between nothing matches.
--   age > duration           in whole seconds, both sides truncated: a lease of
--                            20 s has expired after 21 s, or up to 22.
-- Columns that the original does not have are left unchanged or cleared:
-- without a nonce a winner whose answer was lost cannot recognise its win, and
-- there is no witness. The index is named because of MariaDB: see renew.sql.
UPDATE distribute_lock FORCE INDEX (uk_data_center_lock_name)
SET owner = ?, address = ?, term = term + 1, term_duration = 0, duration = ?, gmt_modified = UTC_TIMESTAMP(3),
    witness_lock = NULL, witness_conn = NULL, resigned = 0
WHERE data_center = ? AND lock_name = ?
  AND owner = ? AND term = ? AND term_duration = ?
  AND TIMESTAMPDIFF(SECOND, gmt_modified, UTC_TIMESTAMP()) > duration / 1000
