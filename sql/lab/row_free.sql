-- What an operator does when article 001's lock stays taken: free it. The predicates:
--   lock_key                 whoever holds it.
DELETE FROM t_ds_jdbc_registry_lock WHERE lock_key = ?
