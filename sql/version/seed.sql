-- The row at version 0, so that an election is always an UPDATE. IGNORE: it is there
-- in all starts but the first.
INSERT IGNORE INTO leader_version (elect_key) VALUES (?)
