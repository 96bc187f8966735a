-- What a follower's check reads. How old the tick is, is for the reader to say: the
-- article lets him use his own clock.
SELECT version, leader_id, tick_time FROM leader_election WHERE elect_key = ?
