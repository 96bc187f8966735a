// Package devdb is a MySQL server inside a Go program, so that a laptop or a
// test needs no database. It is the memory engine of go-mysql-server (GMS,
// v0.20.0) behind a gate, with the tables in a file. Real MySQL and MariaDB run
// the same SQL; claims of correctness are tested against those.
//
// # Why the gate
//
// The engine alone would elect two leaders. It runs each statement against the
// tables as the session first saw them, and a commit writes every table that
// was read back as a whole. Of two compare-and-swaps on one row, both report "1
// row changed" (in 4 to 37 of 100 contended rounds, with up to seven winners in
// one). The gate therefore admits one statement or one transaction at a time,
// over all connections:
//
//		          BEGIN, autocommit=0: keeps the gate
//		           ┌──────────────────────────────┐
//		           ▼                              │ pause
//		wire ─▶ [gate] ─▶ engine ─▶ settle ─▶ transaction open?
//		           ▲                              │ no
//		           │                              ▼
//		           └──────── open ◀─── file: append what changed, sync ──▶ answer
//
//	  - An answer is sent after the file is written and the gate is open, so a client
//	    that does not read its answers blocks no other client.
//	  - A statement that waits longer than Config.LockWait fails with error 1205; nothing
//	    was executed.
//	  - A transaction that is idle for half of LockWait while other statements wait is
//	    rolled back and its connection closed. While none waits it may stay idle. KILL
//	    does not need the gate.
//	  - After an error the engine keeps its old view of the tables as an open transaction;
//	    settle ends it.
//	  - GET_LOCK(name, n) and SLEEP wait without the gate if they are in a SELECT without
//	    FROM and outside a transaction. Otherwise they keep the gate while they wait, for
//	    at most LockWait. The named locks are implemented here; see lockTable.
//
// # Guaranteed
//
// A compare-and-swap has one winner, in autocommit and in transactions. An
// acknowledged row survives kill -9 (with Config.File). A named lock is free as
// soon as the kernel closes its holder's socket, idle or waiting, and goes to
// the client that has waited longest. All of this works in a testing/synctest
// bubble over a network in memory: waits are on channels, NOW(3) follows the
// bubble's clock, and no goroutine is left when Run returns.
//
// # Not guaranteed
//
// Speed (some thousand statements per second, one at a time; reads wait too).
// Large tables (each write reads all tables). Row locks: FOR UPDATE is
// parsed, and the gate does its work. Old row versions: there is one reader at
// a time. Replication, TLS, ROLLBACK TO SAVEPOINT. Objects that the file would not contain
// are refused with error 1235: views, triggers, procedures, events, users. So
// are LOCK TABLES and statements that read or write files.
//
// # When a part fails
//
//	client killed       its locks are free at once, its transaction is rolled back, and it
//	                    leaves the queues of the locks that it waits for
//	client suspended    its transaction is ended when others wait; it keeps its named locks,
//	                    as in MySQL
//	server killed       the file has all acknowledged changes, perhaps one statement more;
//	                    connection ids start again at 1
//	file not writable   the statement fails and Run returns the error, because memory must
//	                    not be ahead of the file
//	file damaged        New returns an error that names the file and leaves it unchanged
//
// # SQL that works
//
// What Conclave and its tests send (statements_test.go): among others UPDATE with a JOIN,
// INSERT .. SELECT, ON DUPLICATE KEY UPDATE after VALUES, foreign keys, CHECK, generated
// columns, timestamp(6), json, NOW(6), TIMESTAMPDIFF(MICROSECOND, ..), and
// information_schema.processlist.
//
// # SQL that does not work
//
//	ts - INTERVAL n MICROSECOND        wrong by up to a second: the operator drops the fraction. DATE_SUB is exact
//	ON UPDATE CURRENT_TIMESTAMP        moves on an UPDATE to equal values, which then counts as one row changed
//	FLOOR(UNIX_TIMESTAMP(x) * 1000)    ends at 2^31-1. CAST(.. AS SIGNED) and ROUND are right
//	UTC_TIMESTAMP(n)                   always microseconds; a column rounds them to its own precision
//	CAST(ts AS CHAR)                   drops trailing zeros; session zones other than +00:00 are wrong
//	UPDATE .. WHERE EXISTS (SELECT ..) fails ("uninitialized subquery"): join instead
//	INSERT .. SELECT .. ON DUPLICATE KEY UPDATE c = VALUES(c)   fails: repeat the value
//	SET SESSION innodb_lock_wait_timeout, DO f(), NOWAIT        fail
//	REGEXP, REGEXP_LIKE, ..            fail: the engine's library for them would slow every start down
//	IS_USED_LOCK(NULL)                 error 3057, as in MySQL; MariaDB returns NULL
//	GET_LOCK(name, 0.4)                does not wait: whole seconds, as in MySQL; MariaDB keeps the fraction
package devdb
