-- A table of one row while the lock row names this owner and term, and of none
-- otherwise: whatever is joined with it happens under the term, or not at all. It
-- stands in the statement that writes, so there is no moment between the check and the
-- write. The predicates:
--   data_center, lock_name   which lock (its unique key: one row at most)
--   owner, term              the token's: a newer term matches nothing
-- The share mode holds the row until that statement is through, under every isolation
-- level: an election and this write wait for each other. (At READ COMMITTED an INSERT
-- ... SELECT would read an old version otherwise.) The index is named, so that nobody
-- takes the owner's before the row, as an election does after it: see lock/renew.sql.
SELECT owner, term FROM distribute_lock FORCE INDEX (uk_data_center_lock_name)
WHERE data_center = ? AND lock_name = ? AND owner = ? AND term = ?
LOCK IN SHARE MODE
