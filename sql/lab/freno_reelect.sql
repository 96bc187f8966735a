-- "Reelect": whoever says it frees the place. The predicates:
--   domain                   and nothing else: it may be another one's by now.
DELETE FROM lab_freno WHERE domain = ?
