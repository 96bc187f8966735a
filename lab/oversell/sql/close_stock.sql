-- Remove the stock of a run that has ended; that of other runs stays. The
-- predicate:
--   goods_no   the article
DELETE FROM lab_goods_stock WHERE goods_no = ?
