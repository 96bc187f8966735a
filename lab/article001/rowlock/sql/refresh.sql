-- Refresh the lock; the beat shows a waiter that it was refreshed. The predicates:
--   id, owner                mine. No row: it was removed, and the lock is
--                            lost. The id alone would be sufficient; the owner
--                            is a second check. A refresh that was delayed
--                            extends this holder's lease, or matches nothing.
UPDATE row_lock SET beat = beat + 1, refreshed = UTC_TIMESTAMP(3) WHERE id = ? AND owner = ?
