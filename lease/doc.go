// Package lease keeps who is alive: a table of leases that their holders renew
// by heartbeat, and that end when they do not. The meta leader has one for the
// sessions and one for the data nodes.
//
//	            Renew                        Cancel, or
//	(unknown) ---------> held until deadline ------------> (unknown)
//	                       |          ^      Expire(now)
//	                       +--Renew---+
//
// To renew an unknown lease is to register: a node that was taken for dead and
// comes back needs no other request, and a new leader with an empty table fills
// it from the heartbeats that arrive anyway.
//
// # Versions
//
// Article 002 lets the answer to a heartbeat carry versioned lists, the members
// under an epoch, so that a node sees at a glance whether its list is old. Table
// counts such a version itself: it moves exactly when the membership does, that
// is when a key is registered, cancelled, expired, or comes with another value
// (a restarted node has a new incarnation), and stands still through any number
// of renewals. Equal versions are equal lists. The version counts within one
// table; between leaders the epoch orders lists, and that is the caller's, who
// writes the members under its term before it publishes them.
//
// # Time
//
// The package has no clock. Each call takes now from the caller, who takes it
// from time.Now, whose monotonic part makes steps of the wall clock harmless (the
// original counts leases on the wall clock, and a step evicts everyone). Within
// a testing/synctest bubble the same code runs on virtual time. A renewal never
// shortens a lease, so that two which overtake each other do no harm.
//
// # What happens when a part dies
//
//	a holder          its lease runs out; the next Expire returns it, once
//	the table's owner the table is gone with it, on purpose: a lease is a promise
//	                  of one leader. The next one registers whom the last one
//	                  had written down, gives all of them a whole lease (Extend),
//	                  and expires nobody before that has passed
//
// # Not guaranteed
//
// The table is not safe for use by several goroutines at once. It does not say
// that a holder is alive, only that it was, a lease ago. It does not know
// incarnations: when a key is a name, whoever renews last has the lease, and the
// changed value tells the owner so.
package lease
