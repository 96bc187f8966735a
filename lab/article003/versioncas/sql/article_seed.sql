-- The row at version 0, which the first election changes. IGNORE: every node
-- executes this.
INSERT IGNORE INTO leader_election (elect_key) VALUES (?)
