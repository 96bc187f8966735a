-- The schema's version; no row when none was ever recorded.
SELECT version FROM schema_version WHERE id = 1
