-- The leader. The age of its last sign of life is not read.
SELECT service_id FROM lab_freno WHERE domain = ?
