// Package blacklist implements the set of forbidden nodes, which is immutable. A
// node on the blacklist is given nothing new and hands over what it has while it
// still serves. So a node leaves without loss through the blacklist
// (addSelfToMetaBlacklist in article 002, the first step of every graceful stop),
// and an operator removes a node with it.
//
//	            Add(Drain(node))                Add(by operator)
//	(allowed) -------------------> own drain ---------------------+
//	    ^  ^                          |                           v
//	    |  +---RemoveOwn, by the next-+                    operator's entry <--+
//	    |      incarnation at its start                      |      |          |
//	    +-----------------Remove, by an operator-------------+      +-any Add--+
//
// In the original a node removes itself from the blacklist at the end of its
// start and so reverts an operator's decision: a machine that is forbidden
// because it is broken returns when it is restarted. Here an entry records the
// requester. A node removes only its own drain entry, made by an earlier
// incarnation; an operator's entry stays until an operator removes it.
//
// Requests may be repeated and may overtake each other: those that change nothing
// need no write (Add, RemoveOwn).
//
// # Limits
//
// The set does not know which nodes are alive or whether the cluster can spare a
// node; callers check that first (slot.CanDrain). It is not protected against a
// stale writer; the store is, since it accepts a set only under the leader's term.
//
// # What happens when a part dies
//
//	the node on the list   its entry stays: it names the node, not the process, and
//	                       the next incarnation removes only its own entry
//	the leader             the set is a row in the database; the next leader reads
//	                       it before it makes a decision
package blacklist
