-- Acquire: a unique violation means that it is held.
INSERT INTO lab_dolphin_lock (lock_key, client) VALUES (?, ?)
