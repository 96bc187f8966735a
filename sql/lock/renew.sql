-- The leader's beat (ownerHeartbeat in article 000). The predicates:
--   owner, term              still mine; no row means deposed.
--   term_duration            the beat as I left it. A renewal on a connection
--                            that I have given up may be applied late, and must
--                            match nothing then.
-- The age is not a predicate (it is in the article): while owner and term are
-- mine, no other node has led, so a late renewal is harmless. Whether I still
-- trust myself depends on my own clock, from before this statement was sent.
-- The index is named because MariaDB would otherwise look up the owner and lock
-- that index before the row; a winner locks them in the other order, and the
-- two would deadlock.
UPDATE distribute_lock FORCE INDEX (uk_data_center_lock_name)
SET term_duration = term_duration + 1, gmt_modified = UTC_TIMESTAMP(3)
WHERE data_center = ? AND lock_name = ?
  AND owner = ? AND term = ? AND term_duration = ?
