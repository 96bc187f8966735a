-- A leadership's first write. IGNORE: its answer may have been lost, and it is said
-- again.
INSERT IGNORE INTO lab_leadership (name) VALUES (?)
