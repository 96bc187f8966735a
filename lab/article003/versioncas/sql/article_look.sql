-- The row, for each of the article's operations. The reader computes the age of
-- the tick; the article uses the reader's clock for it.
SELECT version, tick_time FROM leader_election WHERE elect_key = ?
