// Package versioncas elects a leader by a compare-and-swap of one number, as article
// 003 does, in two forms. [Service] is the article's form with its weaknesses, so that
// they can be studied. [Strategy] is the repaired form, for an elector.
//
// # The article's form
//
// One row of leader_election: version, leader_id, tick_time. Each node runs two tasks,
// at each full five seconds of its clock:
//
//	leader     tick: version + 1 where version is as its last tick left it
//	follower   one second later: if tick_time is older than five seconds
//	           (doesLeaderCrashed), re-elect: read the row again, and set version + 1
//	           and its own id where version is as it was read now (reelect)
//
// At the start all nodes elect from version 0 (elect). The node that swaps the version
// leads, and remembers version 1. Whether a node leads is a flag in its memory
// (isLeader): the result of its last swap, won or lost.
//
// The operations fail as the article's do (ElectionException): [ErrNoRow],
// [ErrNotLeader], [ErrLeader]. Two things are not the article's. The statement of a
// swap is not in its text, which states only that a swap raises the version; and each
// statement commits by itself, where the article has read and swap in one transaction.
// That changes no outcome of a swap, which compares with the row as it is, not with
// the transaction's snapshot; only a commit that fails after a swap, with the flag
// set already, cannot happen here.
//
// docs/articles.md has its weaknesses, each with its test: two winners in a row, living
// leaders that are deposed, winners that remember the wrong version. late_test.go plays
// from a seed those of nodes that are late, and `conclave lab elections` on processes.
//
// # The repaired form
//
// The article's idea is that one number orders everything. Here it is used for
// everything: the number is the fence, the beat and the term.
//
//	version 0          no node has led
//	version 1          n1 won: term 1
//	version 2, 3, 4    n1 renews: term 1, beat 1, 2, 3
//	version 5          n2 won: term 5
//
// A term is the version with which it began, so that terms rise but are not
// consecutive. A win and a renewal name the version as read, and a win also checks the
// database's clock as a second guard; if anything has happened to the row since, they
// match nothing.
//
//  1. Look. The Elector keeps the observation: since when this very version has been
//     seen.
//  2. If the row names this node but the node does not lead that term (the answer to
//     the win was lost, or the term was left), win the next version from itself, at
//     once.
//  3. A candidate may compete if it finds no owner; if it has observed the version for
//     the row's lease and the database agrees; or if it has observed it for three
//     leases, whatever the database's clock says.
//  4. Swap, from the version that was judged, without reading again: a candidate that
//     is late, after another one's win or the leader's renewal, matches nothing.
//     Without an answer the outcome is unknown and nothing is led; rule 2
//     applies in the next round.
//
// A leader renews from the version that it wrote. If the answer to a renewal was lost,
// the version may be higher: any version of the leader's own term was written by it.
//
// # Guarantees
//
// Those of package elector. No two nodes believe they lead at the same time, as with
// termcas and takeover by lease. The herd is bounded by the Elector's jitter but not
// avoided: one statement of each follower per lease.
//
// # What is not guaranteed
//
//   - A killed leader is replaced after its lease, not at once: there is no witness.
//   - Package fence does not fence writes with this row, only with termcas's. Join
//     leader_version in the same way.
//
// # Failures
//
//	the leader       the lease
//	a follower       nothing needs to detect it
//	the database     the leader stops at the end of its trust; a node wins when it is back
//	the row          created again; a node that has seen a higher version waits a lease
package versioncas
