-- At the beginning of a transaction: it has this savepoint until it ends. See
-- saved.sql.
SAVEPOINT conclave_tx
