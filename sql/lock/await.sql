-- Wait for the leader's lock: 1 = its connection is gone, or it gave the lock up;
-- 0 = the wait is over, arm it again; NULL = an error.
SELECT GET_LOCK(?, ?) AS taken
