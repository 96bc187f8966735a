-- The first write of a leadership. IGNORE: the statement is repeated if its
-- answer was lost.
INSERT IGNORE INTO lab_leadership (name) VALUES (?)
