-- Whether the token still holds. After a write that changed no row this
-- distinguishes an old term from a row that did not match. No decision depends
-- on it.
SELECT COUNT(*) AS holds FROM distribute_lock
WHERE data_center = ? AND lock_name = ? AND owner = ? AND term = ?
