-- All clients, and the times of their last heartbeats by their own clocks.
SELECT name, beat FROM lab_dolphin_client WHERE lab = ?
