-- The leader's tick; tick_time follows by itself. The predicates:
--   version                  as my last tick left it: no row means that somebody
--                            else was elected meanwhile (or that I remember it wrong).
UPDATE leader_election SET version = version + 1 WHERE elect_key = ? AND version = ?
