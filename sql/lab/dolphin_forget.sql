-- Purge a client. The predicates:
--   lab, name                as read before. Whether it has beaten since is not asked.
DELETE FROM lab_dolphin_client WHERE lab = ? AND name = ?
