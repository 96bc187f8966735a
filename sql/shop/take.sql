-- One less, if there is one: right without any lock, because the row is read and
-- written in one statement. One row changed says that the buyer has it. The predicates:
--   goods_no    the article
--   stock > 0   the last one was not sold meanwhile; what the buyer read before is not
--               believed
UPDATE lab_goods_stock SET stock = stock - 1 WHERE goods_no = ? AND stock > 0
