-- Register a client. Its name is new with each start.
INSERT INTO lab_dolphin_client (lab, name, beat) VALUES (?, ?, ?)
