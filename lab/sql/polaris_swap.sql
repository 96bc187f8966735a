-- Elect and renew. The predicates:
--   version                  as read, or as my last renewal left it. Whether
--                            the leader is dead was checked before, by another
--                            statement.
UPDATE lab_polaris SET leader = ?, version = ? WHERE elect_key = ? AND version = ?
