-- Acquire the lock. A unique violation means that another client holds it.
INSERT INTO lab_dolphin_lock (lock_key, client) VALUES (?, ?)
