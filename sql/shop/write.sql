-- A buyer writes what he has read, less one. That is the mistake on which the shop is
-- built: the statement does not ask whether the row still is as it was read, so that of
-- two buyers who have read the same stock one's purchase is forgotten. The predicate:
--   goods_no   the article, and nothing else
UPDATE lab_goods_stock SET stock = ? WHERE goods_no = ?
