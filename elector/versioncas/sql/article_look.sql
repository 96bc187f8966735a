-- What a follower's check reads. The reader computes the age of the tick; the
-- article uses the reader's clock for it.
SELECT version, leader_id, tick_time FROM leader_election WHERE elect_key = ?
