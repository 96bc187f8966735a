-- How a server of a DSN with several hosts is replicated. SHOW, because it knows
-- no error for a variable that this kind of server does not have. These are the
-- values of the session. The predicate:
--   Variable_name            the group and its mode; Galera and its options;
--                            whether it is read-only; and what the sessions
--                            have to raise.
SHOW VARIABLES WHERE Variable_name IN (
  'group_replication_group_name', 'group_replication_single_primary_mode', 'group_replication_consistency',
  'group_replication_unreachable_majority_timeout', 'read_only', 'super_read_only', 'server_uuid', 'wsrep_on', 'wsrep_provider_options')
