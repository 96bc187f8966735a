-- Delete the rows whose term has expired. The predicates:
--   last_term                below a limit by the deleter's clock, while the value is by
--                            the holder's.
DELETE FROM t_ds_jdbc_registry_lock WHERE last_term < ?
