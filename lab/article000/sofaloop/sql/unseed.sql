-- Delete the row that sql's Migrate has created, because the original's table
-- is empty before the first node inserts its row (competeLockOnInsert). The
-- predicates:
--   term, owner              no node has ever led. A row that a node has inserted
--                            or won in the meantime stays.
DELETE FROM distribute_lock WHERE data_center = ? AND lock_name = ? AND term = 0 AND owner = ''
