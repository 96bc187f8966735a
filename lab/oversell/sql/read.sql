-- A buyer reads the stock. The row is not locked, so the answer may be outdated
-- when it arrives. The predicate:
--   goods_no   the article (its unique key: one row)
SELECT stock FROM lab_goods_stock WHERE goods_no = ?
