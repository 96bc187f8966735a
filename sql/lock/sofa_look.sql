-- The original's query (article 000): the row, and the database's own time, with which
-- the reader judges whether gmt_modified + duration has passed. NOW() and not NOW(3):
-- whole seconds, as the original has them.
SELECT owner, address, term, term_duration, duration, TIMESTAMPDIFF(SECOND, gmt_modified, NOW()) AS age_s
FROM distribute_lock
WHERE data_center = ? AND lock_name = ?
