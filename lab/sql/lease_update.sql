-- Update the lease. The predicates:
--   version                  as read: the server refuses an update of an older
--                            version of the object.
UPDATE lab_lease
SET holder = ?, lease_ms = ?, transitions = ?, version = version + 1
WHERE name = ? AND version = ?
