-- The oldest transaction that holds locks of rows, which the statements of others
-- may be waiting for. It needs the privilege PROCESS. The predicates:
--   trx_state                it runs, or is idle: it does not wait itself.
--   trx_rows_locked          it has locked rows.
--   id                       it is not this connection.
SELECT t.trx_mysql_thread_id, COALESCE(p.user, ''), COALESCE(p.host, ''), TIMESTAMPDIFF(SECOND, t.trx_started, NOW()) AS seconds
FROM information_schema.innodb_trx t LEFT JOIN information_schema.processlist p ON p.id = t.trx_mysql_thread_id
WHERE t.trx_state = 'RUNNING' AND t.trx_rows_locked > 0 AND t.trx_mysql_thread_id <> CONNECTION_ID()
ORDER BY t.trx_started
LIMIT 1
