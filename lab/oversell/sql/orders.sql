-- The number of orders. The predicate:
--   goods_no   the article
SELECT COUNT(*) AS orders FROM lab_goods_order WHERE goods_no = ?
