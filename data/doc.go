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
// a lower one, so nothing can be added behind its answer. The slot waits for a
// session that does not answer until that session leaves the list. A session
// that cannot be dialled is given up after a node lease and a session grace;
// what is then served is marked unconfirmed and shown as partial
// (unreached.go, docs/adr/0035). A slot without a copy also asks the lost
// sessions, which are off the list and may be alive, and waits for them for a
// node lease at most (docs/adr/0035).
//
// A slot that is handed over is not served without the answer of a session, also
// of one that was lost, while the source is a member: the source is asked again,
// since it may be the only node that has what the session stored last (source.go,
// docs/adr/0064).
//
// After a crash this node's copy may not be the furthest: the meta leader chooses
// by heartbeats. Before the diffs, this node asks the other live holders in its
// row and takes the furthest copy; a holder that is silent for 300 ms is left out.
// The successor of a source that does not answer does the same (holders.go,
// docs/adr/0064).
//
// # Copies and versions
//
// The copies of a slot, their versions and the feed's log are in package
// data/store, which is pure; a replica owns a store and guards it. What a diff
// or an old leader's feed brings is merged under a store.PendingMerge. It ends
// with the leadership that it was begun for: every change of state or leader
// epoch goes through replica.enter, which ends all pending merges, and what a
// diff returns after that is dropped. A follower has none: its leader's feed
// decides everything.
//
// Datum versions are counted per slot. A new leader epoch begins above its
// base, above its own counter, above the source's counter, and above everything
// that any session has pushed. A session that still holds a higher version
// raises the counter when it reads.
//
// # What runs
//
//	slots.run     the state loop: the table, and the migrations        slots.go
//	follows.run   one stream to each leader that this node follows     follow.go
//	runFeed       one for each follower's stream                       replicate.go
//	Watch         one for each session's change feed                   service.go
//	differ.run    diffs, at most 16 at a time with one session         diff.go
//	sweeper.run   lost owners each beat, old tombstones each fifth     sweep.go
//	repairer.run  comparisons in the background                        repair.go
//
// A slot has no goroutine of its own, and no lock is held across a call.
//
// From time to time a follower compares its copy with its leader's, by a digest
// in the feed, and loads it again if they differ (docs/adr/0030).
//
// # Guaranteed
//
//   - What any session has read from a slot is readable after every hand-over.
//   - A write that was answered with accept is in the slot, and survives as long
//     as one of leader, followers or the writing session does.
//   - While a slot may not serve, no read of it is answered.
//   - Datum versions of a slot never fall, and one version never stands for two
//     contents.
//
// # Not guaranteed
//
//   - There are times in which a slot cannot be read: one round trip in a
//     hand-over, and a comparison with every session after a crash. A session that
//     hangs delays that until the meta leader evicts the session, and one that
//     cannot be dialled for a node lease and a session grace. A silent source
//     delays a hand-over as long if a session was lost, until it is reached or
//     evicted.
//   - A slot that is served without a session that could not be dialled may lack
//     what that session has, and a slot without a copy what a lost session had.
//   - Publishers whose clients died together with their session are shown for the
//     session grace, because they look the same as clients that are about to
//     reconnect; for two graces if a subscriber's list would become empty or lose
//     more than half (ADR 0047).
//   - Two leaders of a slot may be read at the same moment: one that was evicted by
//     mistake and receives neither table nor Finish answers readers that are cut
//     off with it. A session that knows the newer epoch ignores its answers.
//
// # When a part dies
//
//   - This node: its slots are granted to nodes with complete copies, which take
//     the furthest copy of the other holders and ask the sessions. After a restart
//     the node is a new incarnation with an empty memory.
//   - A session: its copies stay for the session grace, counted here from the
//     moment at which neither the member list nor a connection nor an answer
//     shows it. What it offers when it returns after that, its clients must
//     confirm again.
//   - This node is suspended: the time is not counted against a session's grace
//     (docs/adr/0071).
//   - Every session: all copies and marks stay, and their time starts again when
//     the first session is back (ADR 0047).
//   - Every data node: the slots are not read until every session has answered.
//     Then they are marked unconfirmed for a session grace, because no copy is
//     left of what lost sessions had (ADR 0047). The slots of a new cluster are
//     not marked.
//   - The meta leader: the next one finds phases in the table and positions in
//     the beats. While there is none, everything continues as the last table
//     says, and nothing is removed for a lost session.
//   - The network to one other node: its feeds are resumed where they broke, or
//     loaded again; a successor that receives nothing for 300 ms asks the
//     other holders and then the sessions, and if one of these does not answer,
//     the source again.
//
// # Files, in reading order
//
// A file uses what later files declare: callers come first, nouns last. No part
// knows the server; each is given the parts below it and the functions that it
// needs.
//
//   - stop.go: a stop hands over every slot first.
//   - compare.go: what tests compare of the copies of several nodes.
//   - server.go: the list of the parts, and how a node starts.
//   - admin.go: what operators are shown.
//   - service.go: what this node answers to sessions and to other data nodes.
//   - slots.go: the state loop, which applies the slot table.
//   - holders.go: after a crash, the furthest copy of the other holders is taken.
//   - source.go: in a hand-over, the source finishes and gives its last position.
//   - migrate.go: from the grant of a slot to the moment at which it serves.
//   - sweep.go: what time ends: copies of lost sessions, tombstones, marks.
//   - repair.go: which slots are compared with which sessions, and when.
//   - diff.go: one slot is compared with one session.
//   - follow.go: a follower reads its leaders' feeds.
//   - replicate.go: a leader sends its followers' feeds.
//   - notes.go: log lines and events of the slots.
//   - migration.go: how far a migration is.
//   - metrics.go: what is measured.
//   - tasks.go: calls in progress, and their results.
//   - replica.go: one slot: its state, its copy, and who may read and write it.
//   - feeds.go: what is pending for each follower's stream.
//   - watch.go: what is pending for each session's feed.
//   - unreached.go: when a session that cannot be reached is given up.
//   - owners.go: which sessions are alive, and at which addresses.
//   - config.go: the configuration and its defaults.
//   - sorted.go: sets of nodes in a fixed order.
package data
