// Package versioncas elects by a compare-and-swap of one number, as article 003 does:
// twice. [Service] is the article's form to the letter, with its weaknesses, so that
// they can be looked at. [Strategy] is the repaired form, for an elector.
//
// # The article's form
//
// One row of leader_election: version, leader_id, tick_time. Every node runs two
// tasks, each five seconds:
//
//	leader     tick: version + 1 where version is as my last tick left it
//	follower   one second later: is tick_time older than five seconds? then
//	           re-elect: version + 1 and my id, where version is as I just read it
//
// At the start everybody elects from version 0. Who swaps the version leads, and
// remembers version 1. That a node leads is a flag in its memory.
//
// What is wrong with it, each with its test in article_test.go:
//
//   - A leader that stalls finds out at its next tick that it lost. Until then there
//     are two, and nothing that they do carries a number by which they could be told
//     apart.
//   - A dead leader is followed when the next probe comes: up to a tick and a time-out
//     after its death, 5 to 10 s.
//   - All followers that have seen the dead row swap at once; all but one in vain.
//   - Who re-elects remembers version 1 while the row holds more, so that its first
//     tick matches nothing: it steps down, the next probe finds no tick, somebody
//     re-elects, and so on. After the first leader's death nobody leads for long again.
//   - elect assumes version 0: in a cluster that starts for the second time all
//     nodes wait for a probe.
//   - The tick's age is the reader's wall clock less the database's: a follower whose
//     clock is fast deposes a healthy leader at every probe. Whole seconds, and a
//     time-out as long as the tick's period, leave no room for a late tick either.
//
// # The repaired form
//
// The article's idea is that one number orders everything. It only does not use it:
// the number is the fence, the beat and the term.
//
//	version 0          nobody has led
//	version 1          n1 won: term 1
//	version 2, 3, 4    n1 renews: term 1, beat 1, 2, 3
//	version 5          n2 won: term 5
//
// A term is the version with which it began, so that terms rise, and are not
// consecutive. A win and a renewal name the version as read and nothing else, apart
// from the database's clock as a second guard; a row in which anything has happened
// since matches nothing.
//
//  1. Look. The Elector keeps the observation clock: since when this very version has
//     been seen.
//  2. The row names me, but I do not lead that term (the answer to the win was lost,
//     or the term was left): win the next version from myself, at once.
//  3. Entitled to compete is who finds no owner; or has observed the version for the
//     row's lease, when the database agrees; or for three leases, whatever the
//     database's clock says.
//  4. Swap. No answer: the outcome is unknown and nothing is led; rule 2 finds out.
//
// Renewing, the leader knows the version that it wrote. A tick whose answer was lost
// may have raised it once more: whatever version my own term has reached is mine.
//
// # Guarantees
//
// Those of package elector; no two nodes believe at the same time, as with termcas and
// takeover by lease. The herd is bounded by the Elector's jitter, not avoided: one
// statement of each follower and lease.
//
// # What is not guaranteed
//
//   - A killed leader is followed after its lease, not at once: there is no witness.
//   - Fenced writes of somebody's own: package fence knows termcas's row. With this
//     one's, join leader_version in the same way.
//
// # When a part dies
//
//	the leader       the lease
//	a follower       nobody needs to know
//	the database     the leader stops at the end of its trust; it, or another, wins when it is back
//	the row          made anew; waited for, by who has seen a higher version
package versioncas
