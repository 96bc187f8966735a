-- The row at version 0, without a leader. IGNORE: every node executes this.
INSERT IGNORE INTO lab_polaris (elect_key, leader) VALUES (?, '')
