// Package check decides by the [History] of a run whether the cluster kept what
// it promises. It starts nothing and sees no cluster.
//
// # Histories and checkers
//
// A History is a list of entries in the order in which they were recorded. A
// node records an event while it holds the lock that guards the fact, so the
// events of one lock are in the order of the facts. The order of two nodes'
// events says only which was recorded first. A checker therefore compares
// events of one node, or epochs, or the end of one statement with the beginning
// of another; it never takes the order of two nodes' events for the order of
// the facts.
//
// A checker is a function over a History that counts its checks. A checker that
// checked nothing has shown nothing, and reports mark it: without events (a
// cluster that ran before the scenario began) many checkers have nothing to
// check. Each has a forged history that it must reject, and a similar one that
// it must accept (forge_test.go).
//
//	I1..I13  the invariants of ARCHITECTURE.md
//	L1..L17  the rules that make the Java original lossless
//	L18      at one position of a feed the follower's copy equals the leader's
//	L19      an operator's commands leave a cluster that serves and has a leader
//	L20      a granted slot is served in time, whichever session cannot be dialled
//	L21      the slot of a dead leader goes to a complete copy if there is one
//	L22      as long as one session is left, every change of a client is stored
//	L23, L24 a burst of load leaves nothing behind: no metastable failure
//	P1       the lock row is a linearizable register with compare-and-swap (porcupine)
//	P2       each subscriber sees each registration as its publisher wrote it, possibly late
//
// If P1 or P2 does not hold, [Visualize] writes a page on which the operations
// can be looked at, with the longest orders that explain some of them.
//
// I7 and L7 compare the pushes of one datum to all subscribers by their
// versions, which only rise. What version 5 shows is also in version 6, to
// whichever subscriber that is pushed, if its client lives and has not
// withdrawn it; what was withdrawn and is missing in version 6 is in no later
// version. A client that no session has known for a client lease does not count
// as live, unless no session ran at that time: an outage of all sessions, and
// the time that clients need to reconnect after it, excuses nothing.
//
// I7 and L7 allow for two situations in which that cannot hold. If no session
// ran and the copies of a slot were lost meanwhile, only the clients had the
// registrations; then the push guard's rule holds for one session grace. And if
// a leader that is ahead of every copy is lost at about the same moment as a
// session, or before the slot is served again, its last changes are lost until
// their clients have connected again. The same holds if a slot is served without
// a copy within three seconds after a session was lost.
// The player looks at the copies before it kills or pauses a leader, and when
// the slot of a leader that was evicted while it lives is granted to another
// node.
//
// I13 in detail: for one incarnation of a session and one datum, the pair
// (leader epoch, version) that the session has read and accepted never falls.
//
// L18 reads the memory of the data nodes, which only the bubble can (testbed.Capabilities.SlotCopies);
// on processes and containers it has nothing to check. L19 looks at times in
// which nothing has failed for a session grace and only an operator acts: every
// change is stored in time, and there is a leader. A command that the cluster
// could not survive must have been refused. L20 looks at grants after which no
// fault begins or ends until the slot must be served, and nothing but data nodes
// and sessions is lost: a session whose port is closed must have been given up.
// L22 looks at times in which sessions are lost or drained and nothing else. L21
// compares each grant after a crash with what the leader knew of the copies in
// the row.
//
// L23 and L24 look at bursts before and after which nothing else has failed for a
// session grace. For five seconds after it a burst may have effects; then as many
// changes are acknowledged a second as before it, give or take a tenth, in up to
// ten seconds after it and twenty before it, if the clients make at least a hundred
// before it; other bursts are shown as not compared (L23). From the beginning of the
// burst on no client that runs has lost its session, no leader was elected, and no
// node was removed (L24).
//
// A history that joins a run (History.Joined) begins where another one has ended. No
// checker concludes from the absence of an entry there if it could be from before.
//
// # Files, in reading order
//
// A file uses what later files declare.
//
//   - checker.go: every checker, in the order of the documents.
//   - rules.go: the rules L1 to L22.
//   - burst.go: a burst of load leaves nothing behind.
//   - progress.go: what must become true after the healing.
//   - drains.go: a drained node has no slot, and a stop drains it.
//   - operator.go: an operator's commands end no service.
//   - figure.go: what a scenario measures.
//   - slots.go: the invariants of slots, and that they are served in time.
//   - linear.go: what must be linearizable.
//   - election.go: the invariants of the election.
//   - blacklist.go: nodes on the blacklist are given nothing.
//   - statement.go: statements, from the two events around each.
//   - registrations.go: the rules about registrations.
//   - clients.go: the invariants of clients, and what excuses a missing value.
//   - limits.go: when values may be missing or old, as ARCHITECTURE.md has it.
//   - verdict.go: a checker and its verdict.
//   - history.go: the record of a run.
//   - faults.go: when a fault affected which hosts, and the cluster's graces.
package check
