-- Release, and purge the lock of a client that is gone. The predicates:
--   id                       of the row, as read or as made.
DELETE FROM lab_dolphin_lock WHERE id = ?
