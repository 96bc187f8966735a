-- The original's force refresh: an operator says who owns the lock, and for how long.
-- There is no predicate but the lock's name, and the term stays: two owners of one
-- term. It is here because the article has it.
UPDATE distribute_lock
SET owner = ?, duration = ?, gmt_modified = UTC_TIMESTAMP(3)
WHERE data_center = ? AND lock_name = ?
