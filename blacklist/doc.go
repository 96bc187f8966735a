// Package blacklist keeps the forbidden servers: a set of node names, immutable,
// under the epoch of its last change. A node on it is given nothing new and loses
// what it has to others while it still serves; so the list is both how a node
// leaves without loss (article 002: the first step of every graceful stop is to
// ask meta to be put on it) and how an operator takes one out.
//
//	            Add(Drain(node))                Add(by operator)
//	(allowed) -------------------> own drain ---------------------+
//	    ^  ^                          |                           v
//	    |  +---RemoveOwn, by the next-+                    operator's entry <--+
//	    |      incarnation at its start                      |      |          |
//	    +-----------------Remove, by an operator-------------+      +-any Add--+
//
// # Who may take back what
//
// In the original a node leaves the list by itself at the end of its start, and
// so undoes what an operator decided: restarting a machine that is forbidden for
// being broken brings it back. Here an entry says who asked. A node takes back
// only its own drain, made by an earlier incarnation; an operator's entry stays
// until an operator removes it, and a node's drain never takes its place.
//
// # Repeats
//
// Requests are repeated by careful senders, and overtake each other. Adding what
// is there, and removing what is not, change nothing and need no write. A node's
// own entry carries the incarnation that asked: its request to be taken off, when
// it arrives late, after the same incarnation has begun to drain, is ignored.
//
// # Guarantees and their limits
//
// A Set never changes; every list it gives out is sorted by name. Since is for
// people: no decision depends on it. The set does not know who is alive, nor
// whether a node can be spared; that is asked before (slot.CanDrain). It does not
// protect itself from a stale writer: the store does, which takes a set only under
// the leader's term.
//
// # What happens when a part dies
//
//	the node on the list   its entry stays; it names the node, not the process,
//	                       and its next incarnation takes back only its own
//	the leader             the set is a row in the database: the next leader reads
//	                       it before it decides anything
package blacklist
