-- The initial stock of the goods that the served shop sells. A row with their
-- number is refused before and after (goods_find.sql).
INSERT INTO goods_stock (goods_no, stock, isActive) VALUES (?, ?, 1)
