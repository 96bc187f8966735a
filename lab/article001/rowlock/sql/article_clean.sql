-- Delete the locks whose term has expired. The predicates:
--   last_term                below a limit by the deleter's clock, although the
--                            value is by the holder's clock.
DELETE FROM t_ds_jdbc_registry_lock WHERE last_term < ?
