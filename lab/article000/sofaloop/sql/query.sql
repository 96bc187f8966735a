-- The original's query (queryDistLock in article 000): the row, when its owner
-- last renewed it, and the database's own time, both in milliseconds. A
-- follower compares the two with each other (expire). Every node also compares
-- the first with its own wall clock (leaderFrom), and that is how two nodes can
-- lead. sql/lock/sofa_look.sql reads the age alone. The predicates:
--   data_center, lock_name   the unique key.
SELECT owner, duration, term, term_duration, gmt_modified, UTC_TIMESTAMP(3) AS gmt_db_server_time
FROM distribute_lock
WHERE data_center = ? AND lock_name = ?
