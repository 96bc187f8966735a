-- "Reelect": remove the leader. The predicates:
--   domain                   and nothing else: the row may name another leader
--                            by now.
DELETE FROM lab_freno WHERE domain = ?
