-- Before the lock row is locked: error 1305 if the transaction that began has
-- ended, by COMMIT, ROLLBACK or BEGIN, by a statement that commits by itself,
-- or by the server. The lock would then not last until the COMMIT.
RELEASE SAVEPOINT conclave_tx
