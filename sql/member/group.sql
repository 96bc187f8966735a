-- The members of the replication group, as this server sees them. It needs the
-- privilege SELECT on this table. There is no predicate: a server that is not in
-- a group, or that has left it, shows itself as OFFLINE or in ERROR, and one that
-- is cut off shows the others as UNREACHABLE.
SELECT MEMBER_ID, MEMBER_STATE, MEMBER_ROLE FROM performance_schema.replication_group_members
