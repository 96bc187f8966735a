-- A buyer of the served shop writes the stock that it has read, less one
-- (updateById in article 004). It is the article's defect: the statement does
-- not check that the row is still as it was read. The predicate:
--   id   the row that the shop has written at its start, and nothing else
UPDATE goods_stock SET stock = ? WHERE id = ?
