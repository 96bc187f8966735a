-- Wait for the leader's lock. 1: its connection has ended, or it released the
-- lock; 0: the wait timed out and must be repeated; NULL: an error.
SELECT GET_LOCK(?, ?) AS taken
