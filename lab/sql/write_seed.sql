-- The row, so that a write is always an UPDATE. IGNORE: every candidate
-- executes this.
INSERT IGNORE INTO lab_write (lab) VALUES (?)
