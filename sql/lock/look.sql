-- The row, and how old its last renewal is by the database's own clock, in
-- microseconds: nobody compares another machine's clock, and whole seconds would
-- make a lease up to one second longer than it says (the original's 20 s are 21).
SELECT owner, address, term, term_duration, duration, nonce, witness_lock, witness_conn, resigned,
       TIMESTAMPDIFF(MICROSECOND, gmt_modified, UTC_TIMESTAMP(3)) AS age_us
FROM distribute_lock
WHERE data_center = ? AND lock_name = ?
