-- Remove the row of a served shop that has ended; other rows of the table stay.
-- The predicate:
--   id   the row that this shop has written
DELETE FROM goods_stock WHERE id = ?
