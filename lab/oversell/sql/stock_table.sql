-- The stock of the lab's shop, after the article's goods_stock (id, goods_no,
-- stock, isActive). It is created on demand in the database that the lab is
-- given, therefore its name must not collide with that of another table.
--   goods_no   one run of one way of selling
--   token      the token of the last lock holder that has claimed the row:
--              claim.sql
CREATE TABLE IF NOT EXISTS lab_goods_stock (
  id        bigint unsigned NOT NULL AUTO_INCREMENT,
  goods_no  varchar(128)    NOT NULL,
  stock     int             NOT NULL,
  is_active tinyint         NOT NULL DEFAULT 1,
  token     bigint unsigned NOT NULL DEFAULT 0,
  PRIMARY KEY (id),
  UNIQUE KEY uk_goods_no (goods_no)
) ENGINE=InnoDB CHARACTER SET ascii COLLATE ascii_bin
