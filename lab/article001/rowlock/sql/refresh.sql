-- Refresh the lock. The predicates:
--   id, owner                mine. No row: it was removed, and the lock is
--                            lost. The id alone would be sufficient; the owner
--                            is a second check.
--   beat                     as my last refresh left it: a refresh that was
--                            delayed matches nothing.
UPDATE row_lock SET beat = beat + 1, refreshed = UTC_TIMESTAMP(3) WHERE id = ? AND owner = ? AND beat = ?
