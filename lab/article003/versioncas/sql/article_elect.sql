-- Elect, also again. The predicates:
--   version                  0 for the first election, otherwise the version
--                            that the re-election has just read, whoever wrote
--                            it: of nodes that have read the same version one
--                            changes it, and of nodes that come one after the
--                            other each does.
-- Whether the leader is dead is not checked: a node that considered it dead by
-- its own clock wins. The article names its statement and does not show it;
-- version + 1 is as in its introduction.
UPDATE leader_election SET version = version + 1, leader_id = ? WHERE elect_key = ? AND version = ?
