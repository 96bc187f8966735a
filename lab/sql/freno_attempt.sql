-- Elect and renew in one statement. Every node executes it in every round, and
-- it locks the row.
--   service_id               mine if the last sign of life is older than the
--                            lease (in whole seconds); otherwise unchanged.
--   last_seen_active         now if service_id is mine; MySQL assigns from left
--                            to right, so this is the new service_id.
INSERT INTO lab_freno (domain, service_id, last_seen_active) VALUES (?, ?, NOW())
ON DUPLICATE KEY UPDATE
  service_id = IF(last_seen_active < NOW() - INTERVAL ? SECOND, VALUES(service_id), service_id),
  last_seen_active = IF(service_id = VALUES(service_id), VALUES(last_seen_active), last_seen_active)
