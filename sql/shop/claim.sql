-- A lock's holder puts his token into the row, before he reads it: from here on no
-- older holder's write lands (write_token.sql). It must come before the reading: a
-- token that first comes with the write would let an older write in between the two,
-- and then forget it. The predicates:
--   goods_no    the article
--   token < ?   tokens rise: a row that names a newer holder is left alone
UPDATE lab_goods_stock SET token = ? WHERE goods_no = ? AND token < ?
