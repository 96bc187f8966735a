-- Remove a row that is mine: released, resigned, or inserted by a statement whose
-- answer was lost. The predicates:
--   id, owner                of that very row: a late removal must not hurt a newer one.
DELETE FROM row_lock WHERE id = ? AND owner = ?
