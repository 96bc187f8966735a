// Package devdb is a MySQL server inside a Go program: go-mysql-server's memory engine (GMS, v0.20.0) behind a gate and
// a file, so that a laptop or a test needs no database. Real MySQL and MariaDB run the same SQL, and only they count
// for a claim of correctness.
//
// # Why the gate
//
// The bare engine elects two leaders. It runs every statement against the tables as the session first saw them, and a
// commit writes each table that was looked at back as a whole: of two compare-and-swaps on one row both are told "1 row
// changed" (in 4 to 37 of 100 contended rounds, up to seven winners in one). So here one statement, or one transaction,
// is inside at a time, over all connections:
//
//		          BEGIN, autocommit=0: keeps the gate
//		           ┌──────────────────────────────┐
//		           ▼                              │ pause
//		wire ─▶ [gate] ─▶ engine ─▶ settle ─▶ transaction open?
//		           ▲                              │ no
//		           │                              ▼
//		           └──────── open ◀─── file: write aside, sync, rename ─▶ answer
//
//	  - An answer leaves after the gate is open, so a client that reads nothing stops nobody; and after the file is written.
//	  - Who waits longer than Config.LockWait gets error 1205, and nothing was executed.
//	  - A transaction that stands idle for half of LockWait while others wait is rolled back and its connection closed.
//	    While nobody waits it may take its time. KILL gets past the gate.
//	  - After an error the engine keeps its old view of the tables as an open transaction; settle ends it.
//	  - GET_LOCK(name, n) and SLEEP wait outside, when they are a SELECT without FROM and outside a transaction; any other
//	    statement waits inside, at most LockWait. Named locks are this package's own, see lockTable.
//
// # Guaranteed
//
// One winner per compare-and-swap, in autocommit and in transactions. An acknowledged row survives kill -9 (with
// Config.File). A named lock is free in the instant in which the kernel closes its holder's socket, idle or waiting, and
// the one who waited longest has it. All of it runs in a testing/synctest bubble over a network in memory: waiting is
// done on channels, NOW(3) follows the bubble's clock, and no goroutine is left when Run returns.
//
// # Not guaranteed
//
// Speed (some thousand statements per second, one at a time; reads wait too). Large tables (every write writes the whole
// file). Row locks: FOR UPDATE parses, the gate does its work. Old row versions: there is one reader at a time.
// Replication, TLS, SAVEPOINT. What is not in the file is refused with error 1235: views, triggers, procedures, events,
// users; so are LOCK TABLES and whatever reads or writes files.
//
// # When a part dies
//
//	client killed       locks free at once, transaction rolled back, its place in a line for a lock given up
//	client stopped      its transaction is ended when others wait; its named locks stay its own, as in MySQL
//	server killed       the file has what was acknowledged, perhaps one statement more; connection ids start again at 1
//	file not writable   the statement fails, Run returns the error: memory must not run ahead of the file
//	file damaged        New refuses it, by name, and leaves it as it is
//
// # SQL: what works
//
// Tried in the tests of this package, through go-sql-driver with interpolateParams:
//
//	UPDATE k JOIN distribute_lock l ON .. SET k.x = .. WHERE l.owner = ? AND l.term = ?    (also comma join, LEFT JOIN)
//	UPDATE .. WHERE nonce <=> ? AND IS_USED_LOCK(?) = CONNECTION_ID() AND (a OR b), GREATEST(term, ?) + 1, CASE, IN (?, ?)
//	INSERT [IGNORE] .. SELECT .. FROM distribute_lock WHERE ..; .. ON DUPLICATE KEY UPDATE c = VALUES(c) after VALUES
//	DELETE h FROM h JOIN l ..; REPLACE; TRUNCATE; ALTER TABLE .. ADD COLUMN; CREATE INDEX; foreign keys; CHECK
//	timestamp(3), timestamp(6), varchar(1024) in a unique key, mediumblob, json, generated columns, AUTO_INCREMENT
//	NOW(3), NOW(6), SYSDATE(6), TIMESTAMPDIFF(MICROSECOND, ..), DATE_SUB, DATE_ADD, TIMESTAMPADD, UNIX_TIMESTAMP
//	@@binlog_format (ROW), @@server_uuid, SHOW GLOBAL STATUS LIKE 'Questions', information_schema.processlist
//
// # SQL: what does not
//
//	ts - INTERVAL n MICROSECOND        wrong by up to a second: the operator drops the fraction. DATE_SUB is exact
//	ON UPDATE CURRENT_TIMESTAMP        moves on an UPDATE to equal values, which then counts as one row changed
//	FLOOR(UNIX_TIMESTAMP(x) * 1000)    ends at 2^31-1. CAST(.. AS SIGNED) and ROUND are right
//	UTC_TIMESTAMP(n)                   microseconds, whatever n; a column rounds them to what it keeps
//	CAST(ts AS CHAR)                   drops trailing zeros; session zones other than +00:00 are wrong
//	UPDATE .. WHERE EXISTS (SELECT ..) fails ("uninitialized subquery"): join instead
//	INSERT .. SELECT .. ON DUPLICATE KEY UPDATE c = VALUES(c)   fails: repeat the value
//	SET SESSION innodb_lock_wait_timeout, DO f(), NOWAIT        fail
//	IS_USED_LOCK(NULL)                 error 3057, as in MySQL; MariaDB answers NULL
//	GET_LOCK(name, 0.4)                does not wait: whole seconds, as in MySQL; MariaDB keeps the fraction
package devdb
