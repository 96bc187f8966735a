-- The original's query (article 000): the row, and the database's own time, with which
-- the reader judges whether gmt_modified + duration has passed. UTC_TIMESTAMP() and
-- not UTC_TIMESTAMP(3): whole seconds, as the original's NOW() has them.
SELECT owner, address, term, term_duration, duration, TIMESTAMPDIFF(SECOND, gmt_modified, UTC_TIMESTAMP()) AS age_s
FROM distribute_lock
WHERE data_center = ? AND lock_name = ?
