-- Remove a row that I have observed unchanged for three leases on my own clock.
-- Otherwise a database clock that was set back an hour would keep a dead
-- holder's lock for an hour. The predicates:
--   id, beat                 as read: these alone make the removal safe.
DELETE FROM row_lock WHERE id = ? AND beat = ?
