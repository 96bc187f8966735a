-- The holder of a lock writes its token into the row before it reads it: from
-- then on no write of an earlier holder is applied (write_token.sql). If the
-- token were written only with the stock, an older write could be applied
-- between the reading and the writing, and would be lost. The predicates:
--   goods_no    the article
--   token < ?   tokens rise: a row with the token of a newer holder is
--               unchanged
UPDATE lab_goods_stock SET token = ? WHERE goods_no = ? AND token < ?
