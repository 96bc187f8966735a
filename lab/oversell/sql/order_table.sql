-- What was sold: a row for each buyer whose purchase was confirmed. Nothing
-- refuses a second row for a buyer or an item, so that an order too many is
-- visible.
CREATE TABLE IF NOT EXISTS lab_goods_order (
  id       bigint unsigned NOT NULL AUTO_INCREMENT,
  goods_no varchar(128)    NOT NULL,
  buyer    int             NOT NULL,
  PRIMARY KEY (id),
  KEY k_goods_no (goods_no)
) ENGINE=InnoDB CHARACTER SET ascii COLLATE ascii_bin
