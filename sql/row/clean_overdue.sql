-- Remove a row that I have seen unchanged for three leases on my own clock: a
-- database clock that was set back an hour must not keep a dead holder's lock for an
-- hour. The predicates:
--   id, beat                 as read: they alone make this safe.
DELETE FROM row_lock WHERE id = ? AND beat = ?
