// Package lease implements a table of leases: a holder renews its lease by
// heartbeats, and otherwise the lease expires. The meta leader has one table,
// for sessions and data nodes. (Renew is renewNode of article 002.)
//
//	            Renew                        Cancel, or
//	(unknown) ---------> held until deadline ------------> (unknown)
//	                       |          ^      Expire(now)
//	                       +--Renew---+
//
// Renewing an unknown lease registers it. So a node whose lease expired while
// it was alive needs no other request, and a new leader with an empty table
// fills it from the heartbeats that arrive.
//
// Each call gets now from the caller, which gets it from time.Now; the monotonic
// part of that time makes steps of the wall clock harmless. (The original uses the
// wall clock, and a step evicts all nodes.) A renewal never shortens a lease, so
// renewals may arrive in any order.
//
// # What happens when a part dies
//
//	a holder           its lease expires; the next Expire returns it, once
//	the table's owner  the table is lost with it, on purpose: a lease is the promise
//	                   of one leader. The next leader registers the members that
//	                   the last one had written, gives all of them a whole lease,
//	                   and expires none before that has passed
//
// # Lateness of the owner
//
// A table's owner that is suspended, or has no processor, reads no renewals. It
// measures by how much its own timer is late (Lateness) and delays all leases by
// that (Delay), so that only time in which it could receive counts as silence. A
// Silence does so for one peer: the meta leader for a node, a data node's feed for
// a session.
//
// # Not guaranteed
//
// A Table must not be used by several goroutines at once. A lease does not mean
// that its holder is alive, only that it was alive within the lease's duration.
// The table does not know incarnations: if keys are names, the owner cancels the
// lease of one incarnation before it gives another one its own.
package lease
