// Package sql is the interface to MySQL: the schema, every statement with the
// reason for each of its predicates, and the stores that use them. It is
// imported as conclavesql, to distinguish it from database/sql.
//
// SQL can carry an election because of one property: a single autocommit UPDATE
// is atomic, and its sender learns how many rows it changed. No decision in
// this package needs more than that.
//
//	table              one row for each    content                            statements
//	distribute_lock    lock                which node leads which term        lock/*.sql
//	cluster_state      kind of state       what the leader has decided        state/*.sql
//	election_history   election            winner, cause, time without leader history/*.sql
//	schema_version     database            newest schema file applied here    schema/*.sql
//
// The other elections, the fence and the lab have their statements beside them,
// under the same rule ([Statement]), and create their tables on demand
// ([DB.Create]).
//
// # Pool and pinned connections
//
// [DB] is a small pool for short statements. Each has a deadline of half a
// beat, and so has each answer while a connection is established, so that a
// stalled server costs a beat and not a lease. A connection as a whole may take a
// lease, because it needs ten round trips (limit.go).
//
// [Pinned] is a single connection for named locks, which the server frees when
// the connection ends. It has no timeout except the context of each statement,
// notices its own end while it is idle, and is closed and never pooled.
//
// A DSN may require TLS, with CAs of its own (secure.go). It may name the members
// of a replication group or the nodes of a Galera cluster: each connection is then
// one to the writer (hosts.go, connector.go), and both kinds end when
// another host becomes the writer.
//
// # Guarantees
//
//   - A statement is sent once. This package never repeats a compare-and-swap.
//   - A write of cluster state changes a row only while the lock row names its
//     writer and term. The same statement checks this ([StateStore.Write]).
//   - Of two writes that replace the same decision at most one is applied,
//     however late the other arrives.
//   - All times are DATETIME in UTC, because each statement uses UTC_TIMESTAMP.
//     A lease is computed in the same way in every session's time zone, across
//     summer time, and after 2038. It is never computed from a clock outside
//     the database.
//   - The schema of a running older program can be migrated, and the program
//     continues to work.
//
// # What is not guaranteed
//
//   - An error does not mean that nothing happened. After [ErrUnavailable] a
//     statement may have been applied, or may be applied later, when the server
//     reads it. A writer that used a nonce finds out with [StateStore.Settle].
//   - A read may be stale by seconds, on a replica or a deposed primary.
//     Decisions are made by UPDATEs; reads only suggest which one to try.
//   - Two primaries at once. Where a database can split into two writable
//     halves (asynchronous replication, a careless failover), each half elects
//     a leader. With all members of a replication group or of a Galera cluster
//     in the DSN only the half with the majority of them is used.
//
// # What happens when a part fails
//
//	what fails                 what happens
//	the server                 ErrUnavailable; pinned connections report their loss at once
//	the network, silently      the deadline of the statement; TCP keep-alive for idle connections
//	a process, in a statement  the server completes or rolls back the autocommit statement
//	a process, between two     nothing is left half done: no decision takes two statements
//	a primary, with failover   statements fail, and connections are made again, until the
//	                           new primary is reached: behind one address, or, with several
//	                           hosts in the DSN, the first one that accepts writes (hosts.go)
//
// The statements are the same on MySQL 8.4 and 9, MariaDB 10.11, and the
// embedded server of internal/devdb; there are no dialects. Where a server
// lacks a feature (a session variable, named locks), its refusal is handled.
package sql
