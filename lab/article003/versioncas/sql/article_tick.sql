-- The leader's tick; tick_time is set automatically. The predicates:
--   version                  as my last tick left it. No row: another node was
--                            elected in the meantime (or I remember a wrong
--                            version).
UPDATE leader_election SET version = version + 1 WHERE elect_key = ? AND version = ?
