-- What was sold: a row for each buyer who was told that he has one. Nothing in it keeps
-- a buyer or an item out: an order too many is to be seen, not refused.
CREATE TABLE IF NOT EXISTS lab_goods_order (
  id       bigint unsigned NOT NULL AUTO_INCREMENT,
  goods_no varchar(128)    NOT NULL,
  buyer    int             NOT NULL,
  PRIMARY KEY (id),
  KEY k_goods_no (goods_no)
) CHARACTER SET ascii COLLATE ascii_bin
