-- How many tables of this schema there are, and the first one that another engine than
-- InnoDB keeps: without its transactions and row locks a statement that fails in the
-- middle, or at the same time as another, may leave a part of its changes.
SELECT COUNT(*) AS tables, COALESCE(MIN(IF(engine = 'InnoDB', NULL, CONCAT(table_name, ' is on ', engine))), '') AS other
FROM information_schema.tables
WHERE table_schema = DATABASE()
  AND table_name IN ('distribute_lock', 'cluster_state', 'election_history', 'schema_version')
