-- freno's service_election, which is also orchestrator's active_node.
CREATE TABLE IF NOT EXISTS lab_freno (
  domain           varchar(255) NOT NULL,
  service_id       varchar(128) NOT NULL,
  last_seen_active timestamp    NOT NULL DEFAULT CURRENT_TIMESTAMP,
  PRIMARY KEY (domain)
) ENGINE=InnoDB CHARACTER SET ascii COLLATE ascii_bin
