-- The leader's tick. The predicates:
--   version                  as my last statement left it: one that was delayed on its
--                            way matches nothing any more.
--   owner, term              mine. The version says it already; but when a tick's answer
--                            is lost I take up whatever version my own term has reached.
UPDATE leader_version
SET version = version + 1, tick_time = UTC_TIMESTAMP(3)
WHERE elect_key = ? AND version = ? AND owner = ? AND term = ?
