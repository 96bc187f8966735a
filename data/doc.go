// Package data is the role that keeps what clients publish: in memory, sharded
// in slots, each slot led by one node and copied by others.
//
// It is an index, not the truth. Every publisher lives in the set of exactly one
// session (article 002); a data node can lose everything and be filled again.
// What it must never do is answer from an index that is not complete, because
// sessions push what they read, and a subscriber that is told "nobody" stops
// calling. So most of this package is about the moment from which a slot may be
// read.
//
// # One slot on one node
//
//	                 row names me: follower, successor
//	     +---------------------------------------------------------+
//	     v                                                         |
//	+-----------+  snapshot, feed   +----------+   stable without  |
//	| following | ----------------> | caughtUp | -------------+    |
//	+-----------+                   +----------+   my name    |    |
//	     |  row names me: leader         |                    v    |
//	     |     at a new epoch            |                  +--------+
//	     v                               v                  |  gone  |
//	+----------------------------------------------+        +--------+
//	| migrating: takes writes, answers no reads    |             ^
//	|                                              |             |
//	|   switching: Finish at the source, apply its |             |
//	|              feed up to its last position    |             |
//	|   crash, or the source is silent: a fenced   |             |
//	|              diff with each who must be      |             |
//	|              heard                           |             |
//	+----------------------------------------------+             |
//	     |  complete: raise the versions                         |
//	     v                                                       |
//	+---------+   Finish, or the table moved on   +----------+   |
//	| serving | --------------------------------> | finished | --+
//	+---------+                                   +----------+  the successor
//	                                                            is confirmed
//
// Places come from the slot table alone. Leader epochs only rise, every request
// names the one it means, and another one is refused (mismatch), as is one for a
// slot led elsewhere (moved) or not complete yet (migrating). The check and what
// it permits happen under one lock, so no read straddles a change.
//
// Who must be heard: the sessions on the member list, those connected, and the
// owners of the copies that are here. A diff is a fence: the session adopts this
// node's epoch before it answers and never again writes to a lower one, so
// nothing can be added behind the answer. A session that does not answer is
// waited for until it leaves the list. One that cannot be dialled is given up
// after a node lease and a session grace; what is served then is marked, and
// shown as partial (unreached.go, docs/adr/0035).
//
// # Copies and versions
//
// Store keeps one copy for each registration and owner session. The highest
// version is visible; a removal touches its owner's copy only; a tombstone is a
// version like any other. Applying the same changes twice, late, or in another
// order makes the same store, and therefore feeds, diffs and writes may run at
// once. The one thing that order matters for, what a session itself wrote while
// something older was on its way, is settled by flights (merge.go).
// A flight ends with the leadership that it was begun for: every change of state
// or leader epoch goes through replica.enter, which ends the flights, and what a
// diff brings after that is dropped. A follower has no flights: its leader's feed
// decides everything.
//
// Datum versions count per slot. A new leader epoch begins above its base, above
// its own counter, above the source's, and above everything that any session has
// pushed; whoever still holds more makes the counter rise when it reads.
//
// # What runs
//
//	slots.run    the state loop: the table, and the migrations        slots.go
//	follows.run  one stream to each leader that is followed           follow.go
//	runFeed      one for each follower's stream                       replicate.go
//	Watch        one for each session's change feed                   watch.go
//	differ.run   diffs, at most 16 under way to one session           diff.go
//	runSweep     lost owners each beat, old tombstones each fifth     owners.go
//	runRepair    comparisons in the background                        repair.go
//
// There is no goroutine for a slot, and no lock is held across a call.
//
// # Guaranteed
//
//   - What any session has read of a slot is readable after every hand-over.
//   - A write that was answered with accept is in the slot, and survives as long
//     as one of leader, followers or the writing session does.
//   - While a slot may not serve, no read of it is answered.
//   - Datum versions of a slot never fall, and never stand for two contents.
//
// # Not guaranteed
//
//   - That a slot is always readable. A hand-over takes one round trip; a crash
//     takes a diff with every session, and a session that hangs holds it up until
//     the leader evicts it; one that cannot be dialled, for a node lease and a
//     session grace.
//   - That a slot which was served without such a session has all that it has.
//   - That publishers whose clients died together with their session go at once.
//     They stay for the session grace, since they look just like clients that are
//     about to come back; for two if a subscriber's list would become empty or
//     lose more than half (ADR 0048).
//   - That two leaders are never both read for a moment: one that was falsely
//     evicted, and hears neither table nor Finish, answers readers as cut off as
//     itself. Whoever has heard of the newer epoch does not count its answers.
//
// # When a part dies
//
//   - This node: its slots are granted to the best copies, which hear the
//     sessions. A restart is a new incarnation with an empty memory.
//   - A session: its copies stay for its grace, counted here from the moment at
//     which neither the member list nor a connection nor an answer shows it. What
//     it offers when it comes back after that, its clients vouch for anew.
//   - Every session: all copies and marks stay, and their time starts again when
//     the first session is back (ADR 0046).
//   - Every data node: the slots are not read until every session was heard. They
//     are marked for a session grace then, except the slots of a new cluster: no
//     copy is left of what sessions had that are gone, too (ADR 0047).
//   - The meta leader: the next one finds phases in the table and positions in
//     the beats. Without any, everything goes on as the last table says, and
//     nothing is removed for a lost session.
//   - The network to one other node: its feeds are resumed where they broke, or
//     loaded again; a successor that hears nothing for 300 ms asks the sessions.
package data
