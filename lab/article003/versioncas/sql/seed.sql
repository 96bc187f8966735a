-- The row at version 0, so that an election is always an UPDATE. IGNORE,
-- because the row exists at every start but the first.
INSERT IGNORE INTO leader_version (elect_key) VALUES (?)
