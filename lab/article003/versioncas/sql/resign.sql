-- Give up the row, so that any candidate can win it in its next round. The
-- version stays; the next win raises it. The predicates:
--   owner, term              mine: a late resignation must not affect a newer
--                            term. The version is not a predicate, because a
--                            tick of mine may still be in progress.
UPDATE leader_version
SET owner = '', address = '', tick_time = UTC_TIMESTAMP(3)
WHERE elect_key = ? AND owner = ? AND term = ?
