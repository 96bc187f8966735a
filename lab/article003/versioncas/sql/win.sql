-- Win: there is no leader, or the row names me although I do not lead, or I
-- have observed this version for three leases. The predicates:
--   version                  as read, which is sufficient: a renewal, another
--                            node's win, or any other change has raised it.
-- The new version is also above the highest term seen anywhere, so that a row
-- that was restored to an older state does not issue a number twice. term comes
-- first, because MySQL assigns from left to right and it must be computed from
-- the old version.
UPDATE leader_version
SET term = GREATEST(version, ?) + 1, version = GREATEST(version, ?) + 1,
    owner = ?, address = ?, lease_ms = ?, tick_time = UTC_TIMESTAMP(3)
WHERE elect_key = ? AND version = ?
