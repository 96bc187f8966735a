-- A buyer looks whether there is one left. Nothing is held: when he has the answer,
-- it may be old. The predicate:
--   goods_no   the article (its unique key: one row)
SELECT stock FROM lab_goods_stock WHERE goods_no = ?
