-- The row at version 0, which the first election swaps. IGNORE: every node does it.
INSERT IGNORE INTO leader_election (elect_key) VALUES (?)
