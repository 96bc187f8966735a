-- A buyer's order.
INSERT INTO lab_goods_order (goods_no, buyer) VALUES (?, ?)
