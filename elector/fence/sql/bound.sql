-- Before the lock row is locked for the end of a transaction: the server ends
-- the connection, and with it the transaction, when no command has come for a
-- second. Otherwise a process that is stopped before its COMMIT, or whose host
-- is lost, would prevent elections for the server's wait_timeout, which is
-- eight hours by default. In a transaction MariaDB counts by these others, if
-- they are set; to the other servers they are a comment.
SET @conclave_wait_timeout = @@SESSION.wait_timeout, SESSION wait_timeout = 1
/*M!100300 , @conclave_idle_write = @@SESSION.idle_write_transaction_timeout, SESSION idle_write_transaction_timeout = 1
, @conclave_idle_read = @@SESSION.idle_readonly_transaction_timeout, SESSION idle_readonly_transaction_timeout = 1 */
