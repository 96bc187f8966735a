-- The row (queryDistLock in article 000), and the age of its last renewal by
-- the database's own clock. Thus no other machine's clock is compared. The age
-- is in microseconds, since whole seconds would make a lease up to one second
-- longer (the original's 20 s are 21).
SELECT owner, address, term, term_duration, duration, nonce, witness_lock, witness_conn, resigned,
       TIMESTAMPDIFF(MICROSECOND, gmt_modified, UTC_TIMESTAMP(3)) AS age_us
FROM distribute_lock
WHERE data_center = ? AND lock_name = ?
