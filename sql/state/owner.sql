-- The present owner and term. After a write that matched nothing this
-- distinguishes a deposed leader from a row that has changed.
SELECT owner, term FROM distribute_lock WHERE data_center = ? AND lock_name = ?
