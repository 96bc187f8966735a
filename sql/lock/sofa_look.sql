-- The original's query (queryDistLock in article 000): the row, and its age by
-- the database's own time, from which the reader computes whether the lease has
-- expired. UTC_TIMESTAMP() and not UTC_TIMESTAMP(3): whole seconds, as in the
-- statement that competes, so that no follower competes in vain. (The source's
-- query has milliseconds: lab/article000/sofaloop/sql/query.sql.)
SELECT owner, address, term, term_duration, duration, TIMESTAMPDIFF(SECOND, gmt_modified, UTC_TIMESTAMP()) AS age_s
FROM distribute_lock
WHERE data_center = ? AND lock_name = ?
