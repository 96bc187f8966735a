-- The leader's tick. The predicates:
--   version                  as my last statement left it: a statement that was
--                            delayed matches nothing.
--   owner, term              mine. The version implies this, except after a
--                            tick whose answer was lost: then I continue from
--                            whatever version my own term has reached.
UPDATE leader_version
SET version = version + 1, tick_time = UTC_TIMESTAMP(3)
WHERE elect_key = ? AND version = ? AND owner = ? AND term = ?
