// Package meta is the registry of the registry: the nodes that elect a leader
// through MySQL, of which the leader knows who is alive, says which data node
// has which slot, and keeps the blacklist and the switches.
//
// # Reading order
//
// server.go is one meta node; follow.go what it does while another leads;
// leader.go what exists only while it leads itself. From there: join.go, the
// stream to every node; members.go, who is alive, and census.go, what is asked of
// them; warmup.go, how a new leader learns before it decides; arranger.go, the one
// goroutine that decides, with arrange.go (slots), protection.go (when not to) and
// operate.go (what it is asked for); effects.go judges what operators ask for,
// observers.go is who may quit the election, stopping.go a stop of the whole
// cluster. bodies.go and packed.go are the rows as text; spread.go, trace.go and
// metrics.go are what the leader says of itself. admin.go and proxy.go are the HTTP
// API; witness.go answers the election's questions. The election itself is package
// elector; the slots' rules are package slot.
//
// # A leader's life
//
//	            elected: a term of its own
//	                    |
//	                    v
//	+----------+   announce to every stored member and meta   +----------+
//	|  loaded  | -------------------------------------------> | warming  |
//	+----------+   (rows read; beats and joins are taken)     +----------+
//	                                                               |
//	      all stored members heard, or one node lease has passed:  |
//	      dial the unheard, seal every kind under the new term     |
//	                                                               v
//	+----------+   resigned, deposed, trust over, outranked   +----------+
//	|   over   | <------------------------------------------- | deciding |
//	+----------+                                              +----------+
//
// Deciding is one loop. Each round looks at everything once and writes what must
// change, in the order in which it must be known: that the cluster is frozen, who
// is a member, who has which slot. A round is woken by a beat that says
// something new, by a node that came, went or was found dead, by a command, and
// by each beat of the election.
//
// # Persist before publish
//
// The cluster's state is five rows: slot table, members, blacklist, switches,
// freeze. Each write is one statement that joins the lock row, so that it lands
// only while the row names this leader and its term, and the old row is as it was
// read. Only then is it published: to the view, and from there down every stream.
// A write whose answer was lost is looked for by its nonce before anything else
// is written. All writes of a term count one sequence, so that an epoch (term,
// sequence) orders them all, whoever reads them; no clock takes part.
//
// # What is guaranteed
//
//   - Whatever a node is told was in the database before, under a term that was
//     the leader's then. Two leaders may believe; only one can write.
//   - A node's lease counts from the arrival of its beat. It is cut short only on
//     evidence: its stream broke, and the address at which it was once reached
//     refuses twice, 100 ms apart, or another incarnation of it answers there.
//   - One incarnation per name. A process that starts under the name of a living
//     one is refused; one that replaces a dead one is a new owner.
//   - A new leader moves nothing before it has heard every stored member, or
//     waited a whole lease and asked the silent ones at their ports.
//   - While protected no slot moves, and that outlives leaders.
//   - Commands are durable before they are answered, and may be repeated.
//   - An operator's act after which the cluster would not serve is refused unless it
//     is forced: judged and done in one command, so that of two at once one is
//     refused (docs/adr/0029).
//
// # What is not guaranteed
//
//   - That members are alive: only that they were, a lease ago.
//   - That a leader which is silent is replaced at once: a frozen one is noticed
//     by its nodes after two beats, and by the metas when its lease runs out.
//   - That protection knows why nodes went missing. It counts data nodes alone,
//     and at most until the next lease; an operator can end it by hand.
//
// # When a part dies
//
//	the leader, killed    the followers' waiting connections wake within
//	                      milliseconds, one wins, announces itself; all nodes
//	                      follow, and since all are heard at once it decides at once
//	the leader, frozen    its lease runs out (3 s), then the same; when it wakes, its
//	                      term is refused everywhere, and its writes match no row
//	a follower            nothing; it is missing from /v1/nodes
//	all metas             the cluster goes on with its last table; nobody is
//	                      removed; the next leader finds table and members in SQL
//	the database          the leader is suspended, and over when its trust ends;
//	                      otherwise as with all metas gone
//	a restored database   terms jump above what was seen; a newer table that some
//	                      node holds is adopted, and differing slots granted anew
//	a data node, killed   refused twice, off the list, its slots granted to their
//	                      followers: about 100 ms
//	a data node, frozen   off the list when its lease runs out
//	the path to all nodes the leader resigns after a lease and stands aside: the
//	                      database alone does not make it useful
package meta
