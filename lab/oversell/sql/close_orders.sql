-- Remove the orders of a run that has ended; those of other runs stay. The
-- predicate:
--   goods_no   the article
DELETE FROM lab_goods_order WHERE goods_no = ?
