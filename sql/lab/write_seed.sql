-- The row, so that a write is always an UPDATE. IGNORE: every candidate does it.
INSERT IGNORE INTO lab_write (lab) VALUES (?)
