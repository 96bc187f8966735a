// Package elector makes one of several nodes the leader, keeps it honest, and hands
// its place to the next within milliseconds when it can.
//
// Read this first, because everything else rests on it:
//
// # What is not guaranteed
//
//   - That only one node believes to lead. Processes stop for seconds (a debugger, a
//     swapped-out machine) and go on as if nothing had happened. No election can
//     forbid that. What it can do is number the terms, so that every effect carries
//     its term and every receiver refuses an older one. [Elector.Leading] keeps the
//     window small; the fence (one SQL statement that joins the lock row, or a
//     receiver that remembers the highest term) closes it.
//   - That there always is a leader. Without the store nobody is elected, and who
//     leads stops when its trust ends.
//   - That clocks which run at different speeds do no harm, beyond Config.Margin: a
//     lease of 3 s allows 2 % between two machines.
//   - With a strategy that takes over by witness (termcas): that beliefs never
//     overlap. A leader that is stopped by the kernel, with its connection broken and
//     its port silent, is passed over within 100 ms; when it wakes up it believes
//     until it looks at its connection or the clock. It cannot act: see above.
//
// # What is guaranteed
//
//   - One owner per term, and terms only rise, in the store and at each node.
//   - A leader trusts itself until lease less margin after the moment before its last
//     acknowledged statement was sent. It compares no clock with anybody's.
//   - Nobody competes by the lease before its own monotonic clock has seen the same
//     (term, beat) for a whole lease.
//   - A term that was left, lost, or promised away is never led again, whatever
//     answers are still on their way.
//   - Lead has returned before the node competes again.
//   - Losing is a result. An election that is lost is no error and no log line.
//
// # A node's states
//
//	            JoinElection
//	observer <----------------> follower <---------------+
//	   ^           Quit            |                     |
//	   |                           | Round: won          | Lead has returned
//	   |                           v                     |
//	   |          lost hold     leading  --------->  winding down
//	   |       +--------------- (acts)    resigned       ^   (Lead's context has ended,
//	   |       v                   ^      deposed        |    nothing may be done)
//	   |   suspended --------------+      trust ended ---+
//	   |   (does nothing) mended                         |
//	   +-------------------------------------------------+
//	                      Quit, Abstain: resigned, and stays out
//
// A suspended leader still leads: the term is its own, its context is alive, but the
// connection that stands for it broke, so a follower may be about to take over. It
// does nothing until its next Round has mended the hold, or found that it is deposed.
//
// # The loop
//
// [Elector.Run] is one goroutine that plays rounds ([Strategy.Round]) and decides
// when the next is due:
//
//	leading                    each beat, counted from before the last was sent
//	suspended                  after 2, 4, 8 ms ... a quarter beat
//	following, beats pushed    each SafetyRead; when two beats are missed; at the end of the
//	                           observed lease
//	following, polling         each Poll (a beat); at the end of the observed lease
//	the leader's stream broke  at once, then each quarter beat until it is settled
//	somebody woke us           at once
//
// Everything else (the act-time check, questions, pushed beats) reads or changes a
// few fields under a mutex that is never held across a wait.
//
// # How to lead
//
//	elector.Config{
//		Lead: func(ctx context.Context, term elector.Term) error {
//			for {
//				// ... wait for work, or for ctx
//				if _, leading := e.Leading(); !leading {
//					continue // suspended, or over: do nothing now
//				}
//				// ... act, under term.Number
//			}
//		},
//	}
//
// # The ways to agree
//
//	termcas      one row that is never deleted, a term, a witness (article 000, and
//	             its own statements as a variant)                the cluster's own
//	versioncas   one number that orders everything (003)         a killed leader: the lease
//	rowlock      a row under a unique key, and its id (001)      likewise; also a plain mutex
//	zklatch      sequential nodes in ZooKeeper (004)             a killed leader: its session
//
// Each passes the suite of electortest. Package fence takes a term into the
// statements of a product's own.
//
// # When a part dies
//
//	what happens                    who notices, by what                 until there is a leader
//	the leader is killed            a waiter gets its lock (termcas)     some ms
//	the leader's host dies          the lease                            lease
//	the leader is cut from the      itself: trust ends; the others:      lease
//	  store                           the lease
//	the leader hangs, port open     the others: 100 ms of silence,       the lease, or 0.1 s if its
//	                                  or the lease                          connection broke too
//	the leader's connection breaks  itself, at once: suspended           it keeps its term
//	the leader resigns              peers are woken                      some ms
//	Lead returns                    the loop: it resigns                 some ms
//	the store stops                 everybody; nobody is deposed by it   trust's end, then until it is
//	                                                                        back, at most a lease more
//	the store restarts              locks vanish; no evidence survives   it keeps its term
//	the store goes back in time     nodes that saw a higher term         a lease; terms go on above
//	a follower dies                 nobody needs to                      -
//
// The idea of a lock row with a term and a beat is article 000's. Counting trust from
// before the request is river's; observing by one's own clock is client-go's; leadership
// as a context is litefs's.
package elector
