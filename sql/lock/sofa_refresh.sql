-- The original's force refresh (forceRefresh in article 000): an operator sets
-- the owner of the lock and its duration. The lock's name is the only predicate
-- and the term stays, so one term can have two owners. It is here because it is
-- in the article.
UPDATE distribute_lock
SET owner = ?, duration = ?, gmt_modified = UTC_TIMESTAMP(3)
WHERE data_center = ? AND lock_name = ?
