-- A buyer writes the stock that it has read, less one. This is the defect that
-- the shop shows: the statement does not check that the row is still as it was
-- read, so if two buyers have read the same stock, one purchase is lost. The
-- predicate:
--   goods_no   the article, and nothing else
UPDATE lab_goods_stock SET stock = ? WHERE goods_no = ?
