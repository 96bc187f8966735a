-- The stock of the lab's shop, after the article's goods_stock (id, goods_no, stock,
-- isActive). It is made on demand, in whatever database the lab is given, and so has a
-- name that nobody else's table has.
--   goods_no   one run of one way of selling
--   token      the number of the last lock whose holder has claimed the row: claim.sql
CREATE TABLE IF NOT EXISTS lab_goods_stock (
  id        bigint unsigned NOT NULL AUTO_INCREMENT,
  goods_no  varchar(128)    NOT NULL,
  stock     int             NOT NULL,
  is_active tinyint         NOT NULL DEFAULT 1,
  token     bigint unsigned NOT NULL DEFAULT 0,
  PRIMARY KEY (id),
  UNIQUE KEY uk_goods_no (goods_no)
) CHARACTER SET ascii COLLATE ascii_bin
