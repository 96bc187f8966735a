-- The number of columns of a table that are still TIMESTAMP, which ends in
-- 2038.
SELECT COUNT(*) AS narrow FROM information_schema.columns
WHERE table_schema = DATABASE() AND table_name = ? AND data_type = 'timestamp'
