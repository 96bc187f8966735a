-- Elect, and re-elect. The predicates:
--   version                  0 for the first election, else the last one that the
--                            follower's check has seen: of all who saw it one swaps.
-- Nothing asks whether the leader is dead: whoever judged so by his own clock wins.
UPDATE leader_election SET version = version + 1, leader_id = ? WHERE elect_key = ? AND version = ?
