-- Win: nobody leads, or the row names me who do not lead, or I have observed this
-- very version for three leases. The predicates:
--   version                  as read, and that is all of it: a leader's renewal, another
--                            one's win, whatever has happened since has raised it.
-- The new version is above the highest term seen anywhere, too: a row that was set
-- back must not give a number out twice. term comes first, because MySQL assigns from
-- left to right and it must be computed from the version as it was.
UPDATE leader_version
SET term = GREATEST(version, ?) + 1, version = GREATEST(version, ?) + 1,
    owner = ?, address = ?, lease_ms = ?, tick_time = UTC_TIMESTAMP(3)
WHERE elect_key = ? AND version = ?
