-- The rows of many locks, as look.sql reads one. The predicates:
--   data_center, lock_name   the locks that are asked for; the list is repeated.
SELECT lock_name, owner, address, term, term_duration, duration, nonce, witness_lock, witness_conn, resigned,
       TIMESTAMPDIFF(MICROSECOND, gmt_modified, UTC_TIMESTAMP(3)) AS age_us
FROM distribute_lock
WHERE data_center = ? AND lock_name IN (?)
