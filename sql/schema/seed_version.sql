-- The row that set_version.sql updates. IGNORE: three processes may start at
-- once.
INSERT IGNORE INTO schema_version (id, version, gmt_modified) VALUES (1, 0, UTC_TIMESTAMP(3))
