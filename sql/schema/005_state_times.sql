-- As 004, for the cluster state.
ALTER TABLE cluster_state
  MODIFY gmt_modified datetime(3) NOT NULL DEFAULT (UTC_TIMESTAMP(3))
