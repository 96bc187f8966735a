-- The schema's version; no row if none was recorded.
SELECT version FROM schema_version WHERE id = 1
