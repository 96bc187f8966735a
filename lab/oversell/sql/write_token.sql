-- write.sql, guarded by the lock's token. The predicates:
--   goods_no    the article
--   token = ?   no holder of a newer lock has claimed the row (claim.sql) since
--               this one did. If no row was changed, the buyer was too late and
--               has bought nothing
UPDATE lab_goods_stock SET stock = ? WHERE goods_no = ? AND token = ?
