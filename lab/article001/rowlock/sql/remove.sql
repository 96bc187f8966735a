-- Remove a row of mine: released, resigned, or inserted by a statement whose
-- answer was lost. The predicates:
--   id, owner                of that row: a late removal must not affect a
--                            newer one.
DELETE FROM row_lock WHERE id = ? AND owner = ?
