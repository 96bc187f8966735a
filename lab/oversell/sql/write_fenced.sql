-- write.sql, guarded by the term under which the seller leads (package
-- elector/fence): {fence} is a table with one row while the lock row names the
-- seller's term, and with no row afterwards. The predicate:
--   goods_no   the article
UPDATE lab_goods_stock JOIN {fence} SET stock = ? WHERE goods_no = ?
