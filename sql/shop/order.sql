-- The buyer has one.
INSERT INTO lab_goods_order (goods_no, buyer) VALUES (?, ?)
