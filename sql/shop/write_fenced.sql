-- write.sql, guarded by the term under which the seller leads (package elector/fence):
-- {fence} is a table of one row while the lock row names his term, and of none
-- afterwards. The predicate:
--   goods_no   the article
UPDATE lab_goods_stock JOIN {fence} SET stock = ? WHERE goods_no = ?
