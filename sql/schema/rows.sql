-- How many of a lock's rows exist: its own, and one for each kind of state.
SELECT (SELECT COUNT(*) FROM distribute_lock WHERE data_center = ? AND lock_name = ?)
     + (SELECT COUNT(*) FROM cluster_state WHERE data_center = ? AND lock_name = ?) AS found
