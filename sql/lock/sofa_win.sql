-- The original's way to compete by update (article 000). The predicates:
--   owner, term,             as read: of all who read the same row one changes it, for
--   term_duration            it changes all three. A beat in between matches nothing.
--   age > duration           in whole seconds: both sides are cut off, so that a lease
--                            of 20 s is over when 21 have passed, or up to 22.
-- What the original does not know stays as it was, or is cleared: no nonce tells the
-- winner that he won when the answer is lost, no witness stands for him.
-- The index is named for MariaDB's sake: see renew.sql.
UPDATE distribute_lock FORCE INDEX (uk_data_center_lock_name)
SET owner = ?, address = ?, term = term + 1, term_duration = 0, duration = ?, gmt_modified = UTC_TIMESTAMP(3),
    witness_lock = NULL, witness_conn = NULL, resigned = 0
WHERE data_center = ? AND lock_name = ?
  AND owner = ? AND term = ? AND term_duration = ?
  AND TIMESTAMPDIFF(SECOND, gmt_modified, UTC_TIMESTAMP()) > duration / 1000
