-- The run is over; other runs' rows stay. The predicate:
--   goods_no   the article
DELETE FROM lab_goods_stock WHERE goods_no = ?
