-- The job's row, with two times of the database's clock: the age of the last
-- run, and the time since the origin of all periods, a Monday at 00:00 UTC. No
-- decision depends on it alone: begin.sql requires that it is still so.
SELECT owner, term, term_duration, duration, resigned = 1 OR owner = '' AS ended, address,
       TIMESTAMPDIFF(MICROSECOND, gmt_modified, UTC_TIMESTAMP(3)) AS age_us,
       TIMESTAMPDIFF(MICROSECOND, '1990-01-01', UTC_TIMESTAMP(3)) AS now_us
FROM distribute_lock
WHERE data_center = ? AND lock_name = ?
