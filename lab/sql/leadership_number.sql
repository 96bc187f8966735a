-- The number that the leadership was given.
SELECT id FROM lab_leadership WHERE name = ?
