-- Update. The predicates:
--   version                  as read: the server refuses an update of an older object.
UPDATE lab_lease
SET holder = ?, lease_ms = ?, transitions = ?, version = version + 1
WHERE name = ? AND version = ?
