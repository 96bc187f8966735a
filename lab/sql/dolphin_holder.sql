-- The lock, and the client that holds it.
SELECT id, client FROM lab_dolphin_lock WHERE lock_key = ?
