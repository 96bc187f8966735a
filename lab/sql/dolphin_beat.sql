-- A client's heartbeat, by the client's own clock. The predicates:
--   lab, name                my own row. No row: another client has purged me.
UPDATE lab_dolphin_client SET beat = ? WHERE lab = ? AND name = ?
