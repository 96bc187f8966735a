-- All clients, and when each says it was last alive.
SELECT name, beat FROM lab_dolphin_client WHERE lab = ?
