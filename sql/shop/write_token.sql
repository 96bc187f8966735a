-- write.sql, guarded by the lock's token. The predicates:
--   goods_no    the article
--   token = ?   nobody with a newer lock has claimed the row (claim.sql) since this
--               holder did. No row changed: he was too late, and has bought nothing
UPDATE lab_goods_stock SET stock = ? WHERE goods_no = ? AND token = ?
