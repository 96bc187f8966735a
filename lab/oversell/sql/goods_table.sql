-- The table of article 004, for the shop that is served by HTTP: the article's
-- statement, without its DROP TABLE, because the database may have a table of
-- that name.
--   goods_no   number of the goods; nothing makes it unique
--   stock      items that are left
--   isActive   1 while they are on sale
CREATE TABLE IF NOT EXISTS `goods_stock` (
  `id` int unsigned NOT NULL AUTO_INCREMENT,
  `goods_no` int NOT NULL COMMENT '商品编号',
  `stock` int DEFAULT NULL COMMENT '库存',
  `isActive` smallint DEFAULT NULL COMMENT '是否上架(1上,0不是)',
  PRIMARY KEY (`id`)
) ENGINE=InnoDB AUTO_INCREMENT=3 DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin
