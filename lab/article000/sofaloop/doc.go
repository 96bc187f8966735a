// Package sofaloop is article 000's election as it is written: the original's
// statements in the original's own loop, with the original's clocks. It is for
// study only, in the lab and in tests in virtual time; no meta of Conclave runs
// it. The cluster's election is package termcas. There, the profile sofa runs
// the same statements in Conclave's loop, which trusts no other machine's clock.
//
// # A round
//
// Each node plays a round each second ([Loop.Elect]):
//
//  1. An observer only reads the row.
//  2. Any other node reads it too, and inserts it if it is missing.
//  3. If the row names this node, and the node still believes that it leads, it
//     renews the row and reads it again. Otherwise it is a follower: if the lock
//     has expired by the database's clock, it competes, and reads the row again.
//  4. What was read last is what the node believes: the leader, and until when,
//     which is half of the lock's duration after its last renewal.
//  5. One of two callbacks is called, in every round.
//
// If a statement fails, the round ends there and changes nothing, except that a
// leader whose renewal fails believes the row as it was before. A row that was
// deleted within the round ends it, too: the node believes what it did before,
// and its next round inserts the row. The original sets no limit to a statement;
// here the Deadline of package sql's Options is one.
//
// The article names leaderFrom, amILeader and the callbacks without their
// bodies. These are as in SOFARegistry's source, AbstractLeaderElector and
// MetaJdbcLeaderElector (6.x). docs/article-names.md has the names.
//
// # Its weaknesses
//
// docs/articles.md has them, each with its test: two leaders, or none, by clock skew, half
// of a lease without a leader, a call to SQL that hangs, an owner without an incarnation.
// docs/lab.md has for how long two lead (skew_test.go).
//
// # Files, in reading order
//
//	loop.go  a round, the callbacks, what a node believes
//	lock.go  the row: insert, renew, compete
package sofaloop
