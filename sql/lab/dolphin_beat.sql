-- A client's sign of life, by its own clock. The predicates:
--   lab, name                my own row: none is left when somebody has purged me.
UPDATE lab_dolphin_client SET beat = ? WHERE lab = ? AND name = ?
