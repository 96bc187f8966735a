// Package sql is everything that Conclave says to MySQL: the schema, every
// statement with the reason for each of its predicates, and the stores over them.
// It is imported as conclavesql, because database/sql is near.
//
// Why SQL can carry an election at all is one property: a single autocommit UPDATE
// is atomic, and the number of rows that it changed is known to who sent it.
// Everything here is built so that no decision needs more than that.
//
//	distribute_lock    one row a lock: who leads which term, until when     lock/*.sql
//	cluster_state      one row a kind: what the leader has decided          state/*.sql
//	election_history   one row an election: who, why, how long nobody       history/*.sql
//	schema_version     one row: the newest schema file applied here         schema/*.sql
//
// Beside them stand the tables of the articles' other elections and locks (version/*.sql,
// row/*.sql), the fence (fence/*.sql), the lab's rules (lab/*.sql) and its shop (shop/*.sql),
// each made by who uses it.
//
// # Two ways in
//
// [DB] is a small pool for short statements. Each has a deadline of half a beat,
// connecting included: a stalled server costs a beat, not a lease. [Pinned] is one
// connection of its own, for named locks, which live and die with the connection
// that holds them. It has no time-out but the context of each statement, it notices
// its own end while nobody uses it, and it is closed and never pooled.
//
// # Guarantees
//
//   - A statement is sent once. Nothing in here repeats a compare-and-swap.
//   - A write of cluster state lands only while the lock row names its writer and
//     term, judged in the same statement ([StateStore.Write]).
//   - Of two writes that replace the same decision at most one lands, however late
//     the other comes.
//   - All times are DATETIME in UTC, because each statement says so: a lease is
//     judged alike in every session's time zone, over summer time, and after 2038. No
//     lease is judged by a clock outside the database, or by another machine's.
//   - The schema of an older program is changed under it while it runs, and it goes on.
//
// # What is not guaranteed
//
//   - That an error means that nothing happened. After [ErrUnavailable] a statement
//     may have been applied, or may be later: the server may still be about to read
//     it. Who wrote under a nonce finds out with [StateStore.Settle].
//   - Anything about a read. On a replica, or on a deposed primary, it may be old by
//     seconds. Decisions are made by UPDATEs; reads only say which to try.
//   - Two primaries at once. Where a database can be split into two writable halves
//     (asynchronous replication, a careless fail-over) each half elects a leader.
//
// # When a part dies
//
//	what breaks                what happens
//	the server                 ErrUnavailable; pinned connections tell at once that they are lost
//	the network, silently      the deadline of the statement; TCP keep-alive for idle connections
//	a process, in a statement  the server finishes it or rolls it back: it is one autocommit statement
//	a process, between two     nothing is half done: no decision is spread over two statements
//	a primary, fails over      statements error (RejectReadOnly drops the connection), the next ones find the new one
//
// The statements are the same on MySQL 8.4 and 9, MariaDB 10.11, and the embedded
// server of internal/devdb; there are no dialects. Where a server lacks something
// (a session variable, named locks), its refusal is taken as an answer.
package sql
