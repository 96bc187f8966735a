-- Before the lock row is locked for the end of a transaction: the server ends
-- the connection, and with it the transaction, when no command has come for a
-- second. Otherwise a process that is stopped before its COMMIT, or whose host
-- is lost, would prevent elections for the server's wait_timeout, which is
-- eight hours by default.
SET @conclave_wait_timeout = @@SESSION.wait_timeout, SESSION wait_timeout = 1
