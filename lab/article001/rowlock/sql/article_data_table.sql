-- What the article's registry keeps besides its locks: ephemeral values under keys
-- (data_type 1). They exist as long as their writer refreshes last_term, a time in
-- milliseconds by the writer's clock.
-- After 2038-01-19 03:14:07 UTC no value can be put (see article_table.sql).
CREATE TABLE IF NOT EXISTS t_ds_jdbc_registry_data (
  id               bigint       NOT NULL AUTO_INCREMENT,
  data_key         varchar(256) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  data_value       text         CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  data_type        tinyint      NOT NULL,
  last_term        bigint       NOT NULL,
  last_update_time timestamp(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3),
  create_time      timestamp    NOT NULL DEFAULT CURRENT_TIMESTAMP,
  PRIMARY KEY (id),
  UNIQUE KEY uk_data_key (data_key)
) ENGINE=InnoDB
