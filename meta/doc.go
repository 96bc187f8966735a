// Package meta is the meta node: meta nodes elect a leader through MySQL, and
// the leader keeps the member list, the slot table, the blacklist and the
// switches of the cluster. The election itself is package elector; the rules for
// slots are package slot. In this package "leader" means the meta leader; the node
// that leads a slot is its slot leader.
//
// # A leader's life
//
//	            elected: a term of its own
//	                    |
//	                    v
//	+----------+   announce to every stored member and meta   +----------+
//	|  loaded  | -------------------------------------------> | warming  |
//	+----------+   (rows read; beats and joins are accepted)  +----------+
//	                                                               |
//	      every stored member has sent a beat, or one node lease   |
//	      has passed: dial the silent ones, seal every kind        v
//	+----------+   resigned, deposed, trust ended, outranked  +----------+
//	|  ended   | <------------------------------------------- | deciding |
//	+----------+                                              +----------+
//
// The rows are read again after the seal, until they show it: the first read may
// have been of a server that lags behind. If its bodies were old, the term ends.
//
// Deciding is one loop. Each round looks at everything once and writes what must
// change, in the order in which other nodes must learn it: protection, members,
// slot table. A round starts when a beat reports something new, when a node
// joins, leaves or is found dead, on a command, and on each beat of the election.
//
// # Persist before publish
//
// The cluster's state is six rows: slot table, members, blacklist, switches,
// freeze (protection) and the configuration for clients. Each write is one
// statement that joins the lock row, so it changes its row only while the lock
// names this leader and its term and the row is still as it was read. Only then is
// it published to the view, and from there on every stream. If the answer to a
// write is lost, the leader reads the row and looks for the write's nonce before
// it writes anything else. All writes of a term share one sequence, so an epoch
// (term, sequence) orders them all for every reader; no clock is involved.
//
// # What is guaranteed
//
//   - Whatever a node receives was in the database before, written under a term
//     that the leader held then. Two nodes may both believe they lead; only one
//     can write.
//   - A node's lease counts from the arrival of its beat. It is cut short only on
//     evidence: its stream broke, and the address at which it was once reached
//     refuses two dials, 25 ms apart, or another incarnation of it answers
//     there.
//   - Time in which this leader did not run does not count as silence of its
//     members: it measures by how much its own timer is late.
//   - A session that is removed because its lease ended, and is not known to be
//     dead, is published as lost until it joins again, leaves or is replaced
//     (the latest 16).
//   - There is one incarnation per name. A process that starts under the name of
//     a living one is refused; one that replaces a dead one is a new owner.
//   - A new leader moves no slot before every stored member has sent a beat, or
//     before it has waited a whole lease and dialed the silent ones.
//   - While the cluster is protected no slot leaves the nodes of its row, under
//     later leaders too.
//   - Commands are durable before they are answered, and may be repeated.
//   - An operator's request after which the cluster would not serve is refused
//     unless it is forced. It is checked and done in one command, so of two
//     conflicting requests at the same time one is refused.
//
// # What is not guaranteed
//
//   - A listed member may have died up to a lease ago.
//   - There is a delay before a silent leader is replaced. If the meta leader is
//     paused, its nodes notice it after two beats, and the other metas when its
//     lease expires.
//   - Protection does not know why nodes are missing. It counts data nodes only,
//     until the next lease at most; an operator can end it by hand.
//
// # When a part fails
//
//	the leader, killed    the followers' waiting connections return within
//	                      milliseconds, one wins and announces itself; all nodes
//	                      follow, so it can decide at once
//	the leader, paused    its lease expires (3 s), then the same; when it continues,
//	                      its term is refused everywhere, and its writes match no row
//	a follower            nothing; it is missing from /v1/nodes
//	all metas             the cluster continues with its last table; no node is
//	                      removed; the next leader finds table and members in SQL
//	the database          the leader is suspended, and its term ends with its trust;
//	                      then as with all metas down
//	a restored database   terms jump above those seen; a newer table that some node
//	                      holds is adopted, and differing slots are granted again
//	a data node, killed   two refused dials, removed from the list, its slots granted
//	                      to their followers: about 50 ms
//	a data node, paused   removed from the list when its lease expires
//	a data node that      other nodes lead its slots until it is heard again; it stays
//	sessions do not hear  a member and keeps its copies
//	the path to all nodes the leader resigns after a lease and abstains: a leader that
//	                      reaches only the database is of no use
//
// # Files, in reading order
//
// A file uses what later files declare: callers come first, nouns last. No part
// knows the server; each is given the parts below it and the functions that it
// needs. What the parts of a leader share during one term is its tenure.
//
//   - server.go: the list of the parts, how a node starts, and the paths of its port.
//   - metrics.go: what is measured.
//   - service.go: what this node answers to other nodes.
//   - candidacy.go: this node leaves or joins the election at an operator's request, as the leader grants it.
//   - proxy.go: the leader answers operators, and the other metas forward to it.
//   - admin.go: what operators are shown, and what they change.
//   - stopping.go: the stop of the whole cluster.
//   - follow.go: what a node does while another one leads.
//   - leader.go: which node leads, and what exists only while this one does.
//   - join.go: the stream to every node; which nodes become members, and which are dead.
//   - arranger.go: the one goroutine that decides, and what one round does.
//   - warmup.go: how a new leader learns before it decides.
//   - seal.go: the first write of a term, and the read after it.
//   - protection.go: when no slot may move, and when this leader is of no use.
//   - arrange.go: slots are assigned to data nodes.
//   - effects.go: what a request would do, and whether the cluster would still serve.
//   - operate.go: changes of the blacklist, the switches, and the configuration for clients.
//   - trace.go: what a test can observe of the writes.
//   - rows.go: the arranger's state, which is the cluster's; each change is written before it is shown.
//   - bodies.go: how the rows are encoded and decoded.
//   - tenure.go: what the parts of a leader share, its announcement, and requests to other nodes.
//   - roster.go: the members and their leases, and how long a slot table takes to reach them.
//   - config.go: the configuration and its defaults.
package meta
