-- What the statements of this user wait for, longest first. A user sees its own
-- statements without any privilege. The predicates:
--   db                       this database.
--   command, id              a statement in progress, other than this one.
--   state                    MySQL and MariaDB name a wait for a table, for a
--                            backup's global lock, or for its end; a wait for a
--                            row is only an update that does not end.
SELECT state, COALESCE(info, '') AS info
FROM information_schema.processlist
WHERE db = DATABASE() AND command IN ('Query', 'Execute') AND id <> CONNECTION_ID()
  AND (state LIKE 'Waiting for %' OR state LIKE 'updating%' OR state LIKE 'Statistics%')
ORDER BY time DESC
LIMIT 16
