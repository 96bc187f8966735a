-- A table with one row while the lock row names this owner and term, and with
-- no row otherwise. A statement that joins it has its effect under the term or
-- not at all; the check and the write are one statement. The predicates:
--   data_center, lock_name   the lock (a unique key: at most one row)
--   owner, term              the token's: under a newer term nothing matches
-- The share mode keeps the row locked until the statement has finished, at
-- every isolation level: an election and this write wait for each other. (At
-- READ COMMITTED an INSERT ... SELECT would otherwise read an old version.) The
-- index is named so that the owner's index is not locked before the row,
-- because an election locks them in the other order: see
-- sql/lock/renew.sql.
SELECT owner, term FROM distribute_lock FORCE INDEX (uk_data_center_lock_name)
WHERE data_center = ? AND lock_name = ? AND owner = ? AND term = ?
LOCK IN SHARE MODE
