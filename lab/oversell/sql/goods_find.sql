-- A buyer of the served shop reads the row (getOne in article 004). The row is
-- not locked, so the answer may be outdated when it arrives. The predicate:
--   goods_no   the goods; more than one row is an error, as it is in the
--              article
SELECT stock FROM goods_stock WHERE goods_no = ?
