-- One less, if any is left: correct without a lock, because the row is read and
-- written in one statement. If one row was changed, the buyer has got one. The
-- predicates:
--   goods_no    the article
--   stock > 0   the last one was not sold in the meantime; what the buyer read
--               before is not used
UPDATE lab_goods_stock SET stock = stock - 1 WHERE goods_no = ? AND stock > 0
