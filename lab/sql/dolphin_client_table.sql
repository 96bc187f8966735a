-- DolphinScheduler's clients. beat is the time of the last heartbeat in
-- milliseconds, by the client's own clock.
CREATE TABLE IF NOT EXISTS lab_dolphin_client (
  lab  varchar(200) NOT NULL,
  name varchar(55)  NOT NULL,
  beat bigint       NOT NULL,
  PRIMARY KEY (lab, name)
) ENGINE=InnoDB CHARACTER SET ascii COLLATE ascii_bin
