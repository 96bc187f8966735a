-- The row at version 0, led by nobody. IGNORE: every node does it.
INSERT IGNORE INTO lab_polaris (elect_key, leader) VALUES (?, '')
