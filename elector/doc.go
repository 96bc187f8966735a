// Package elector makes one of several nodes the leader, through a store that
// they share. When the leader stops or crashes, another node leads within
// milliseconds where the strategy can detect it, otherwise after the lease.
//
// Start with what the package does not promise, because users must build on it:
//
// # What is not guaranteed
//
//   - Two nodes may believe that they lead. A process can be paused for seconds
//     (a debugger, a machine that swaps) and then continue as if nothing had
//     happened; no election can prevent that. It can number the terms, so that
//     every effect carries its term and every receiver refuses an older one.
//     [Elector.Leading] keeps the window small. The fence closes it: an SQL
//     statement that joins the lock row, or a receiver that remembers the highest
//     term.
//   - There may be no leader. While the store is down no node is elected, and
//     the present leader stops when its trust ends.
//   - Clocks must run at nearly the same speed. Config.Margin is the allowance:
//     2 % between two machines by default. The clock of a machine, real or
//     virtual, that is suspended stands still: when it continues, its leader
//     trusts itself for what was left of its lease, up to all of it.
//   - With takeover by witness (package termcas), perceived leaderships may
//     overlap. A leader whose process is paused, whose connection is broken and
//     whose port is silent is replaced within 100 ms. When it continues, it
//     believes it leads until it looks at its connection or its clock. It
//     cannot change anything that is fenced.
//
// # What is guaranteed
//
//   - A term has at most one owner, and terms only rise, in the store and at
//     each node.
//   - A leader trusts itself until lease minus margin after the moment before
//     its last acknowledged statement was sent. It does not compare its clock
//     with another machine's.
//   - No node competes because of an expired lease before it has observed the
//     same (term, beat) for a whole lease, by its own monotonic clock.
//   - A term that this node has left, lost or promised not to lead is never led
//     by it again, whatever answers arrive later.
//   - The node does not compete again before Lead has returned. Before that it gives no
//     term up and closes no connection either, unless trust in the term has ended,
//     another node has won, or the connection has failed: then the term is suspended.
//   - Losing an election is a result, not an error, and is not logged.
//
// # The states of a node
//
//	            JoinElection
//	Observing <--------------> Following <-------------------- term closed --+
//	    ^           Quit           |                                         |
//	    |                          | won                                     |
//	    |                          v                                         |
//	    |  witness lost         Leading ------------- term lost ------> WindingDown
//	    |      +--------------- (may act)   deposed, outranked,          (Lead's context
//	    |      v                  ^  |      promised away,               has ended; the
//	    |  Suspended -------------+  |      trust ended                  node only waits
//	    |   witness reacquired       | Resign, Quit, Abstain,            for Lead)
//	    |   (until then it may       | Lead has returned                     ^
//	    |   not act)                 |                                       |
//	    |                            v                                       |
//	    +------------------------ Resigning ----------- term lost -----------+
//	       term closed, abstains  (may not act;
//	       (it was handed over;   renews the term)
//	       otherwise: Following)
//
// These are the usual ways; the table in state.go has all. [Elector.Status] returns
// the present one. A term is closed when Lead has returned and the term has been
// handed over or is lost. A node that has handed its term over abstains: it
// observes until it learns of a new leader, for two leases at most, or until
// JoinElection if it has quit.
//
// A suspended leader still leads: the term is its own and the context of Lead is
// alive. But the connection that holds its witness broke, so a follower may be
// about to take over. It must not act until its next Round has reacquired the
// witness or found that another node has won.
//
// # The loop
//
// [Elector.Run] is one goroutine that plays rounds ([Strategy.Round]) and decides
// when the next one is due:
//
//	Leading, Resigning         each beat, counted from before the last was sent
//	Suspended                  after 2, 4, 8 ms ... a quarter beat
//	WindingDown                a beat after the lease has expired, as an observer
//	Following, beats pushed    each SafetyRead; when two beats are missed; at the end of the
//	                           observed lease
//	Following, polling         each Poll (a beat); at the end of the observed lease
//	the leader's stream broke  at once, then each quarter beat until it is settled
//	Wake was called            at once
//	a peer has resigned        at once; 30 ms later if the strategy queues for its end
//	this node has resigned     30 ms later
//
// All other methods read or change a few fields under a mutex that is never held
// across I/O, a sleep or a channel operation.
//
// # How to lead
//
//	elector.Config{
//		Lead: func(ctx context.Context, term elector.Term) error {
//			for {
//				select {
//				case <-ctx.Done(): // the term has ended: Lead must return
//					return nil
//				case <-work:
//				}
//				if _, leading := e.Leading(); leading { // not while suspended
//					// ... act, under term.Number
//				}
//			}
//		},
//	}
//
// # Strategies
//
// Package termcas is the strategy of this library: one row that is never deleted,
// with a term and a witness (article 000; its own statements are a variant).
// Package electortest is a suite that every strategy must pass, also yours; the
// elections of the other articles, in the folder lab, pass it too. Package fence
// puts a term into an application's own statements. Package electorhttp shows an election
// to probes and to Prometheus, and electorfake is one in memory, for an application's
// tests.
//
// # Failures
//
//	what happens                    what detects it                      until there is a leader
//	the leader is killed            a waiter gets its lock (termcas)     some ms
//	the leader's host dies          the lease                            lease
//	the leader is cut off from      at the leader: its trust ends;       lease
//	  the store                       at the others: the lease
//	the leader hangs, port open     the others: 100 ms of silence,       the lease, or 0.1 s if its
//	                                  or the lease                          connection broke too
//	the leader's connection breaks  the leader, at once: suspended       it keeps its term, if it is asked
//	the leader resigns              the peers are woken                  some ms
//	Lead returns, or Run's context  the loop: it resigns                 some ms
//	  ends
//	the store stops                 every node; no leader is deposed     from the end of trust until the store
//	                                                                        is back, plus at most a lease
//	the store restarts              locks vanish, and so does evidence   it keeps its term
//	the store is set back           nodes that saw a higher term         a lease; terms continue above
//	a follower dies                 nothing needs to                     -
//
// The lock row with a term and a beat is article 000's. Counting trust from before
// the request is river's idea, observing by one's own clock is client-go's, and
// leadership as a context is litefs's.
package elector
