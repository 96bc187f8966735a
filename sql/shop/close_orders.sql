-- The run is over; other runs' orders stay. The predicate:
--   goods_no   the article
DELETE FROM lab_goods_order WHERE goods_no = ?
