// Package store keeps the copies of one slot: what each session has registered
// in it, what subscribers see of that, at which version, and what followers are
// sent. It is pure. It has no goroutine, no network, no lock, no logger and no
// clock: it is given the time, and returns what has changed and what is to be
// sent. Package data owns a store for each slot and guards it.
//
// # The rule
//
// A copy is kept for each registration id and owner session. The copy of the
// highest version is visible; if it is a tombstone, nothing is. A session
// changes only its own copies, and only to higher versions. The same changes in
// another order, late or twice make the same store, so writes, diffs and feeds
// need no order among each other. There are two exceptions. What a session writes
// while an older decision about the same copy is on its way wins over that
// decision (PendingMerge). And a removal hides the older copies of other
// sessions that are here, or that arrive by a feed or a snapshot; one that
// another session writes later is visible.
//
// # Versions
//
// A datum's version is taken from the slot's counter whenever its visible
// content changes. The counter never falls, also not from one leader of the
// slot to the next (Serve), nor when a session has pushed a higher version
// (Answer). One version therefore never stands for two contents.
//
// # Who calls what
//
//	a leader     Serve once; Write, Remove, Merge; Answer, TakeChanged, Carry;
//	             Changes, Snapshot and Trim for its followers; Compact
//	a follower   Install, Follow; Prune
//	a successor  follows, and at the same time takes writes: it opens a
//	             PendingMerge before, and ends it when it serves
//
// # Files, in reading order
//
//   - feed.go: what followers are sent and apply, and how an answer to a diff is merged.
//   - read.go: what subscribers see.
//   - store.go: the store, writes, removals, a new leader's versions, and the feed's log.
//   - marks.go: until when something may be missing, and what time ends.
//   - bases.go: what subscribers see of a datum, made of what they saw before.
//   - datum.go: a copy, a datum, and an owner's copies in two numbers.
package store
