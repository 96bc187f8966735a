-- What an operator does when a lock of article 001 stays taken: delete it. The
-- predicates:
--   lock_key                 and nothing else: any client may hold it.
DELETE FROM t_ds_jdbc_registry_lock WHERE lock_key = ?
