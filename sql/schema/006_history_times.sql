-- As 004, for the election history.
ALTER TABLE election_history
  MODIFY at datetime(3) NOT NULL DEFAULT (UTC_TIMESTAMP(3))
