-- The first step of every attempt: delete an expired leader. The predicates:
--   expires_at < now         the lease has expired by the database's clock; any
--                            node may delete it.
DELETE FROM lab_river WHERE name = ? AND expires_at < UTC_TIMESTAMP(3)
