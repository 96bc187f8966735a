// Package rowlock locks by a unique key in MySQL, as article 001 does: a row is a
// lock, inserting it is acquiring, deleting it is releasing. [Registry] is the
// article's form to the letter (DolphinScheduler's), with the ephemeral data and the
// subscriptions that start beside its locks, and with its faults. [Locks] is the
// repaired mutex, and [Strategy] elects a leader over the same rows.
//
// # The article's form
//
//	acquire   insert the row; a unique violation means held: sleep, try again. Held
//	          locks sit in a map, filled once per key.
//	refresh   every 2 s: write my clock into last_term of all rows that I hold, then
//	          delete all rows whose last_term is too old, whoever's they are.
//	release   delete the row, drop it from the map.
//
// What is wrong with it, each with its test in article_test.go:
//
//   - Who holds nothing cleans nothing. When the only holder dies, its row stays for
//     ever, and all others wait for ever.
//   - The times are the clocks of the processes. One that is fast deletes the rows of
//     the living; one that is slow keeps the rows of the dead.
//   - The map is filled once per key and never looked at again: a second thread of the
//     same process is let in beside the first, and a holder whose row was deleted goes
//     on believing, and refreshes nothing.
//   - A waiter's try is an insert: each uses an id up, and with no interval it spins.
//
// # The repaired mutex
//
//		          look ──── no row ────────────▶ insert ─── 1 row ──▶ held ── refresh ─┐
//		            ▲ │                            │ none               ▲              │
//		     sleep  │ ├─ its lease is over ─▶ delete that row           └──────────────┘
//		            │ │                                                 │ no row, or trust ended
//		            └─┴─ somebody's ◀──────────────┘                    ▼
//		                                                               lost
//
//	  - Whoever waits cleans, the row that it waits for and no other.
//	  - Ages are the database's, and the lease is the holder's own, both in the row. A
//	    waiter that has seen one beat for three leases believes no clock at all.
//	  - A holder knows until when it may act: lease less margin after its last
//	    acknowledged refresh was sent, on its own monotonic clock ([Lock.Held]). It is
//	    told when the lock is lost ([Lock.Lost]).
//	  - In one process, too, one holds at a time; the others queue.
//	  - A waiter looks, and inserts only where there is nothing; it sleeps until the
//	    lease could be over, or for a fraction of it.
//	  - The row's id is the lock's token: it rises with every acquisition, so that what
//	    is guarded can refuse an older one.
//
// # The strategy
//
// The id is the term, the unique key the election. Nobody deletes a leader's row before
// having observed its beat for a whole lease (package elector), the database agreeing;
// then whoever inserts first leads. An answer that was lost is never believed: a row
// that names me, whose term I do not lead, is deleted, and the next one is another term.
//
// # Guarantees
//
// Of Strategy those of package elector. Of Locks: of two holders at most one is told by
// Held that it may act, as long as the clocks of holder and database run at the same
// speed; tokens rise.
//
// # What is not guaranteed
//
//   - Fairness: who looks first gets it.
//   - Hundreds of locks in one process: each is a statement of its own at every refresh.
//   - That a lock survives a leap of the database's clock. The token tells.
//   - Elections when the leader's row was deleted by hand: others win at once, while
//     the leader believes until its next beat. The row is all there is; termcas keeps
//     one that is never deleted.
//   - Rising ids on InnoDB before MySQL 8.0: a restart sets the counter back to the
//     highest row. An Elector passes over the terms that it has seen.
//
// # When a part dies
//
//	a holder       its row stays for its lease, then a waiter deletes it
//	a waiter       nobody needs to know
//	the database   holders stop at the end of their trust; rows are as they were when it is back
package rowlock
