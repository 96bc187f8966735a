-- Release a lock, or purge the lock of a client that has died. The predicates:
--   id                       of the row, as read or as inserted.
DELETE FROM lab_dolphin_lock WHERE id = ?
