-- Elect, and beat. The predicates:
--   version                  as read, or as my last beat left it. Whether the leader is
--                            dead was asked by another statement, some time ago.
UPDATE lab_polaris SET leader = ?, version = ? WHERE elect_key = ? AND version = ?
