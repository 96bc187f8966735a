-- The shop opens: so many of this article. Its number is drawn for each run, so that a
-- row of that number is another run's, and an error.
INSERT INTO lab_goods_stock (goods_no, stock) VALUES (?, ?)
