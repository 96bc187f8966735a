-- Whether a Galera node takes part. A node that has lost the others answers this
-- statement, and refuses those that read tables. The predicate:
--   Variable_name            it is ready, in the primary component, which no
--                            other part of the cluster can be, and synced (4).
SHOW GLOBAL STATUS WHERE Variable_name IN ('wsrep_ready', 'wsrep_cluster_status', 'wsrep_local_state', 'wsrep_cluster_size')
