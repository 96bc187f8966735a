-- Whether the token still holds, to tell "over" from "nothing matched" after a write
-- that changed no row. Nothing is decided by it.
SELECT COUNT(*) AS holds FROM distribute_lock
WHERE data_center = ? AND lock_name = ? AND owner = ? AND term = ?
