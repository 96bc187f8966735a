-- Elect, if there is no leader (ON CONFLICT DO NOTHING in the original).
-- TIMESTAMPADD, because time + INTERVAL is in whole seconds on the embedded
-- server.
INSERT IGNORE INTO lab_river (name, leader_id, elected_at, expires_at)
VALUES (?, ?, UTC_TIMESTAMP(3), TIMESTAMPADD(MICROSECOND, ?, UTC_TIMESTAMP(3)))
