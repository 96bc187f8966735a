-- The number that it was given.
SELECT id FROM lab_leadership WHERE name = ?
