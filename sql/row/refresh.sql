-- Refresh. The predicates:
--   id, owner                mine: no row means that it was cleaned away, and the lock
--                            lost. The id alone would do; with the owner nobody can be
--                            wrong about whose it is.
--   beat                     as my last refresh left it: one that was delayed on its
--                            way matches nothing any more.
UPDATE row_lock SET beat = beat + 1, refreshed = UTC_TIMESTAMP(3) WHERE id = ? AND owner = ? AND beat = ?
