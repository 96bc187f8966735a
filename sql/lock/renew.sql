-- The leader's beat (renewal in elector/termcas). The predicates:
--   owner, term              still mine: no row means deposed.
--   term_duration            the beat as I left it: a renewal sent on a connection
--                            that I have given up may land later, and must match
--                            nothing then.
-- The age is not asked for (the article asks): as long as owner and term are mine
-- nobody else has led, so renewing late is harmless; whether I still trust myself
-- is judged by my own clock, from before this statement was sent.
-- The index is named: MariaDB would rather look for the owner, and lock that index
-- before the row, in the way of a winner that changes it after the row: a deadlock.
UPDATE distribute_lock FORCE INDEX (uk_data_center_lock_name)
SET term_duration = term_duration + 1, gmt_modified = UTC_TIMESTAMP(3)
WHERE data_center = ? AND lock_name = ?
  AND owner = ? AND term = ? AND term_duration = ?
