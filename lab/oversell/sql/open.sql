-- The initial stock of an article. Its number is random for each run, so an
-- existing row of that number belongs to another run and is an error.
INSERT INTO lab_goods_stock (goods_no, stock) VALUES (?, ?)
