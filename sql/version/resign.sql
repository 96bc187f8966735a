-- Give the row back, so that anyone's next round can win at once. The version stays:
-- the next win raises it. The predicates:
--   owner, term              mine: a late resignation must not hurt a newer term. Not
--                            the version: a tick of mine may still be on its way.
UPDATE leader_version
SET owner = '', address = '', tick_time = UTC_TIMESTAMP(3)
WHERE elect_key = ? AND owner = ? AND term = ?
