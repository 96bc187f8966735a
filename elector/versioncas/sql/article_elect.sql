-- Elect, also again. The predicates:
--   version                  0 for the first election, otherwise the version
--                            that the follower's check has read: of all that
--                            have read it one changes it.
-- Whether the leader is dead is not checked: a node that considers it dead by
-- its own clock wins.
UPDATE leader_election SET version = version + 1, leader_id = ? WHERE elect_key = ? AND version = ?
