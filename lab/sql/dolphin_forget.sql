-- Purge a client. The predicates:
--   lab, name                as read before. A heartbeat since then is not
--                            checked.
DELETE FROM lab_dolphin_client WHERE lab = ? AND name = ?
