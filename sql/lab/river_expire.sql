-- What every attempt begins with. The predicates:
--   expires_at < now         by the database's clock: whose lease is over is deleted,
--                            whoever asks.
DELETE FROM lab_river WHERE name = ? AND expires_at < UTC_TIMESTAMP(3)
