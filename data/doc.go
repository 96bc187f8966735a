// Package data is the role that keeps what clients publish: in memory, sharded
// into slots. Each slot is led by one data node and copied by others.
//
// A data node holds a derived copy. The source of truth about a publisher is
// the set of registrations of exactly one session (article 002); a data node
// can lose everything and be filled again. What it must never do is answer
// reads from an incomplete copy: sessions push what they read, and a subscriber
// that receives an empty list stops calling. Most of this package is therefore
// about the moment from which a slot may be read.
//
// # One slot on one node
//
//	           the row names this node as follower or successor
//	     +---------------------------------------------------------+
//	     v                                                         |
//	+-----------+  snapshot, feed   +----------+   stable without  |
//	| following | ----------------> | caughtUp | -------------+    |
//	+-----------+                   +----------+   this node  |    |
//	     |  the row names this node      |                    v    |
//	     |  as leader at a new epoch     |                  +--------+
//	     v                               v                  |  none  |
//	+----------------------------------------------+        +--------+
//	| migrating: takes writes, answers no reads    |             ^
//	|                                              |             |
//	|   switching: Finish at the source, apply its |             |
//	|              feed up to its last position    |             |
//	|   crash:     take the furthest copy of the   |             |
//	|              other live holders, if any      |             |
//	|   then, or if the source is silent: a fenced |             |
//	|              diff with each session that     |             |
//	|              must answer; if one does not,   |             |
//	|              a source that lives is asked    |             |
//	|              again                           |             |
//	+----------------------------------------------+             |
//	     |  complete: raise the versions                         |
//	     v                                                       |
//	+---------+   Finish, or the table changed   +----------+    |
//	| serving | -------------------------------> | finished | ---+
//	+---------+                                  +----------+  the successor
//	                                                           is confirmed
//
// A node's place in a slot comes from the slot table alone. Leader epochs only
// rise. Every request names the epoch that it means; another epoch is refused
// (mismatch), and so is a request for a slot that is led elsewhere (moved) or
// that is not complete yet (migrating). The check and the read or write that it
// permits happen under one lock, so a read never spans a change.
//
// The sessions that must answer are those on the member list, those that are
// connected, and the owners of the copies at this node. A diff is a fence: the
// session adopts this node's epoch before it answers and never again writes to
// a lower one, so nothing can be added behind its answer. migrate.go says which
// sessions a slot waits for, owners.go when one is given up, and source.go what
// other data nodes are asked for.
//
// # Copies and versions
//
// The copies of a slot, their versions and the feed's log are in package
// data/store, which is pure; a replica owns a store and guards it. Every change of
// state or leader epoch goes through replica.enter, which ends the merges of the
// leadership that it leaves: what a diff returns after that is dropped. A follower
// merges nothing, its leader's feed decides everything. From time to time it
// compares its copy with its leader's, by a digest in the feed, and loads it again
// if they differ (docs/adr/0030).
//
// # What runs
//
//	slots.run     the state loop: the table, and the migrations        slots.go
//	follows.run   one stream to each leader that this node follows     follow.go
//	runFeed       one for each follower's stream                       replicate.go
//	Watch         one for each session's change feed                   service.go
//	differ.run    diffs, at most 16 at a time with one session         diff.go
//	sweeper.run   lost owners each beat, old tombstones each fifth     sweep.go
//	repairer.run  comparisons in the background                        sweep.go
//
// A slot has no goroutine of its own, and no lock is held across a call.
//
// # Guaranteed
//
//   - What any session has read from a slot is readable after every hand-over.
//   - A write that was answered with accept is in the slot, and survives as long as
//     the leader, the writing session or a follower that has it and is reached does.
//   - While a slot may not serve, no read of it is answered.
//   - Datum versions of a slot never fall, and one version never stands for two
//     contents.
//
// ARCHITECTURE.md says what is not guaranteed: for how long a slot may be
// unreadable, and what it may lack or still show. Two leaders of a slot may be read
// at the same moment: one that was evicted by mistake and receives neither table
// nor Finish answers readers that are cut off with it. A session that knows the
// newer epoch ignores its answers.
//
// # When a part dies
//
//   - This node: its slots are granted to nodes with complete copies, which take
//     the furthest copy of the other holders and ask the sessions. After a restart
//     the node is a new incarnation with an empty memory.
//   - A session: its copies stay for the session grace, counted here from the
//     moment at which neither the member list nor a connection nor an answer
//     shows it. What it offers when it returns after that, its clients must
//     confirm again. Time in which this node was suspended does not count
//     (docs/adr/0071), nor does time without any session (ADR 0047).
//   - Every data node: the slots are not read until every session has answered.
//     Then they are marked unconfirmed for a session grace, because no copy is
//     left of what lost sessions had (ADR 0047). The slots of a new cluster are
//     not marked.
//   - The meta leader: the next one finds phases in the table and positions in
//     the beats. While there is none, everything continues as the last table
//     says, and nothing is removed for a lost session.
//
// # Files, in reading order
//
// A file uses what later files declare: callers come first, nouns last. No part
// knows the server; each is given the parts below it and the functions that it
// needs.
//
//   - stop.go: a stop hands over every slot first.
//   - server.go: the list of the parts, and how a node starts.
//   - writes.go: in which requests the writes of sessions arrive.
//   - service.go: what this node answers to sessions and to other data nodes.
//   - slots.go: the state loop, which applies the slot table.
//   - source.go: what other nodes have is taken over.
//   - migrate.go: from the grant of a slot to the moment at which it serves.
//   - sweep.go: in the background: what time ends, and comparisons with sessions.
//   - diff.go: one slot is compared with one session.
//   - follow.go: a follower reads its leaders' feeds.
//   - replicate.go: a leader sends its followers' feeds, and adds small changes to those of sessions.
//   - admin.go: what operators are shown: lists, log lines, events and metrics.
//   - replica.go: one slot: its state, its copy, and who may read and write it.
//   - feeds.go: what is pending for each follower's stream and each session's feed.
//   - owners.go: which sessions are alive, and when one is given up.
//   - config.go: the configuration and its defaults.
package data
