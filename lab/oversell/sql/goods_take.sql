-- One less, if any is left, in the served shop: correct without a lock
-- (take.sql). The predicates:
--   id          the row
--   stock > 0   the last one was not sold in the meantime
UPDATE goods_stock SET stock = stock - 1 WHERE id = ? AND stock > 0
