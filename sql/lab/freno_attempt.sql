-- Elect, and beat, in one: every node says it at every turn, and locks the row.
--   service_id               mine, if the last sign is older than the lease (in whole
--                            seconds); else as it was
--   last_seen_active         now, if service_id is mine by then: MySQL assigns from left
--                            to right
INSERT INTO lab_freno (domain, service_id, last_seen_active) VALUES (?, ?, NOW())
ON DUPLICATE KEY UPDATE
  service_id = IF(last_seen_active < NOW() - INTERVAL ? SECOND, VALUES(service_id), service_id),
  last_seen_active = IF(service_id = VALUES(service_id), VALUES(last_seen_active), last_seen_active)
