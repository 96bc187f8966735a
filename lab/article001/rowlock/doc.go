// Package rowlock locks by a unique key in MySQL, as article 001 does: a row is a lock,
// inserting it is acquiring, deleting it is releasing. [Registry] is the article's form
// (DolphinScheduler's JDBC registry), with its faults; what else that registry starts,
// ephemeral data and subscriptions, is no lock and not here. [Locks] is the repaired mutex.
//
// # The article's form
//
//	acquire   insert the row; a unique violation means that the lock is held: sleep, try
//	          again. Held locks are in a map (lockHoldMap), filled once per key.
//	refresh   2 s after the last refresh has ended (LockTermRefreshTask): write the
//	          process's clock into last_term of all rows that it holds, then delete all
//	          rows whose last_term is too old, including other processes' rows.
//	release   delete the row, then remove it from the map; if the row cannot be
//	          deleted it stays in the map, and release can be retried.
//
// docs/articles.md has its faults, each with its test: dead holders' rows that stay, clocks
// of several processes, threads that share a lock.
//
// # The repaired mutex
//
//		          look ──── no row ────────────▶ insert ─── 1 row ──▶ held ── refresh ─┐
//		            ▲ │                            │ none               ▲              │
//		     sleep  │ ├─ lease expired ─▶ delete that row               └──────────────┘
//		            │ │                                                 │ no row, or trust ended
//		            └─┴─ held by another ◀─────────┘                    ▼
//		                                                               lost
//
//	  - A waiter cleans up the row that it waits for, and no other.
//	  - The age is measured by the database's clock, and the lease is the holder's own;
//	    both are in the row. A waiter that has seen one beat for three leases uses no
//	    clock but its own.
//	  - A holder knows until when it may act: a little less than its lease after its last
//	    acknowledged refresh was sent, by its own monotonic clock ([Lock.Held]).
//	    [Lock.Lost] is closed when the lock is lost.
//	  - Within a process, too, one goroutine holds a lock at a time; the others queue.
//	  - A waiter reads, and inserts only if there is no row; it sleeps until the lease can
//	    have expired, or for a fraction of it.
//	  - The row's id is the lock's token. It rises with each acquisition, so that what the
//	    lock guards can refuse an older one.
//
// # Guarantees
//
// Held is true for at most one of two holders, as long as the clocks of holder and
// database run at the same speed; tokens rise.
//
// # What is not guaranteed
//
//   - Fairness: the first to look acquires the lock.
//   - Efficiency with hundreds of locks in one process: each is one statement per refresh.
//   - That a lock survives a jump of the database's clock. Its token is then outdated.
//   - One holder when the row was deleted by hand: another process acquires the lock at
//     once, while the holder trusts its own until its next refresh.
//   - Rising ids on InnoDB before MySQL 8.0: a restart sets the counter back to the
//     highest row.
//
// # Failures
//
//	a holder       its row stays for its lease, then a waiter deletes it
//	a waiter       nothing needs to detect it
//	the database   holders stop at the end of their trust; the rows are unchanged when it is back
package rowlock
