// Package lab plays many ways ([Rules]) to elect a leader under the same faults, and says
// what came of it: Conclave's strategies, the articles' own forms, and the rules of other
// projects in their own words.
//
//	               lab (this process)
//	     ┌───────────────┼──────────────────────────┐
//	  lines          SIGKILL, SIGTERM,          a proxy before each store:
//	 in and out     SIGSTOP, SIGCONT           what may pass between whom
//	     │               │                          │
//	n1, n2, n3 of one rule: three processes ────────┴──▶ one database, one ZooKeeper
//
// Candidates are real processes ([Candidate]), so that a kill is a kill and a stop a
// stop. Each says on its standard output when it begins to believe that it leads, until
// when, and when it stops ([Event]), by the clock that all processes of a machine share.
// While it believes it writes: without a guard, and, if its rule has a number for that,
// guarded by it.
//
// # A trial
//
//  1. Calm: all three take part, and one has led for three to eight tenths of a lease; a
//     different share each time, so that the fault meets every phase of a beat.
//  2. The fault strikes the leader: [Kill], [Term], [Pause] or [Partition].
//  3. Another one's belief begins. From the fault until then nobody led, as far as the
//     others are concerned: that is the figure. The limit is two leases and 3 s, for
//     the rules that promise something three leases and 15 s; then it counts as never,
//     and an operator frees the place if the rule needs one.
//  4. Three tenths of a lease later the fault is mended: the old leader runs on, or hears
//     of its store again. Now it has to find out. If it has not after a lease and a
//     second it is killed, and counted.
//  5. Who is gone starts anew, as a new incarnation.
//
// A rule that promises nothing may come to no single leader that lasts: then all its
// candidates begin anew, at most three times, and the report says so.
//
// # What is measured
//
//	leaderless       from the fault to the next belief
//	statements       asked of the store: in calm, and by who waited, until somebody led
//	wake-ups         turns of their loops, likewise
//	overlap          for how long two processes that ran believed ([Overlap]); a stopped
//	                 one does nothing, and counts from when it goes on
//	stale writes     that landed after a newer leader's first: judged in the statement
//	                 that writes, where everything has an order (sql/lab/write.sql)
//	unasked          leaderships that began while nothing was wrong
//
// # The rules
//
// Each is a file: its statements are under sql/lab, its loop, its flag and its clock are
// as in the original's source, and its comment says what is known to be wrong with it
// ([Rule.Weakness]). All play with one lease, and with their own proportions of beat and
// check to it; those that cannot be told another (article 003 and 001) with their own.
// What counts whole seconds still does.
//
// # What is not true to life
//
//   - Several elections share a database and two cores: figures of a few milliseconds
//     are those of a busy machine. Only a rule whose waiters spin plays alone.
//   - All rules have the same limit for a statement, half a beat; the originals have
//     several, and some have none.
//   - One machine has one wall clock. What a rule does when clocks differ is not seen.
//   - orchestrator and freno free nothing at a stop; here they do what their operator's
//     "reelect" does.
//   - river's word of a resignation goes through the lab; its NOTIFY is Postgres's.
//   - ZooKeeper is, unless a real one is named, one server in memory.
//
// # Promises
//
// [Report.Broken] holds Conclave's own rules to what they promise: no overlap where
// nothing but the lease ends a term, never a guarded write of an old leader, and somebody
// who follows. A guard that lets nothing through keeps nothing: guarded writes must land.
// In ZooKeeper a stale one is found by the newer leader's next write, so that of several
// between two of these one is counted.
package lab
