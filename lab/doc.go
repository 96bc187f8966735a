// Package lab runs many ways ([Rules]) to elect a leader under the same faults
// and compares them: Conclave's strategies, the articles' own forms, and the
// rules of other projects as their sources have them.
//
//	               lab (this process)
//	     ┌───────────────┼──────────────────────────┐
//	  commands       SIGKILL, SIGTERM,          a proxy before each store,
//	 and events     SIGSTOP, SIGCONT           which can cut off a candidate
//	     │               │                          │
//	n1, n2, n3 of one rule: three processes ────────┴──▶ one database, one ZooKeeper
//
// Candidates are real processes ([Candidate]), so that a kill and a stop are
// real, too. Each writes events ([Event]) to its standard output: when it
// begins to believe that it leads (its perceived leadership), until when, and
// when it stops. Their times are on the clock that all processes of a machine
// share. While a candidate believes that it leads it writes to the store, once
// without a guard and, if its rule has a number for that, once guarded by the
// number.
//
// # A trial
//
//  1. Calm: all three take part, and one has led for three to eight tenths of a
//     lease. The share differs each time, so that the fault meets every phase
//     of a beat.
//  2. The fault is injected into the leader: [Kill], [Term], [Pause] or
//     [Partition].
//  3. Another candidate begins to lead. The time from the fault until then is
//     the figure. The limit is two leases and 3 s; for rules that promise
//     something it is three leases and 15 s. After that the trial counts as
//     "never", and the lab frees the leadership as an operator would, if the
//     rule needs that.
//  4. Three tenths of a lease later the fault is repaired: the old leader
//     continues, or reaches its store again, and has to notice that it was
//     replaced. If it has not after a lease and a second, it is killed, and the
//     trial is counted as endless.
//  5. Crashed candidates are restarted, each with a new incarnation.
//
// A rule that promises nothing may not settle on a single leader. Then all its
// candidates are restarted, at most three times, and the report counts the
// restarts.
//
// # What is measured
//
// The report explains its columns. Whether a write is stale is decided in the statement
// that writes, because the database orders all of them (sql/write.sql).
//
// # The rules
//
// Each rule is a file. Its statements are in the folder sql; its loop, flag and
// clock are as in the original's source; [Rule.Weakness] names its known faults.
// All rules run with one lease, and scale their own beat and check intervals to
// it. Rules whose times cannot be configured (articles 003 and 001) run with
// their own. A rule whose candidates bring their own fault (article-003-late) is
// observed for four leases, without trials. A rule that counts in whole seconds
// does so here, too.
// The articles' own forms are in packages below this one (docs/articles.md).
//
// # What is not true to life
//
//   - Several elections share a database and two cores: figures of a few
//     milliseconds are those of a busy machine. Only a rule whose waiters spin
//     runs alone.
//   - All rules have the same time-out for a statement, half a beat; the
//     originals have several, and some have none.
//   - One machine has one wall clock. The effects of clocks that differ are seen
//     only of article-000-skew, whose candidates subtract from theirs.
//   - orchestrator and freno keep the leadership when they stop; here they do
//     what their operator's "reelect" does.
//   - river's notification of a resignation goes through the lab; its NOTIFY is
//     a feature of Postgres.
//   - ZooKeeper is one server in memory, unless the address of a real one is
//     given.
//
// # Promises
//
// [Report.Broken] checks what Conclave's own rules promise: no overlap where
// only the lease ends a term, no guarded write of an old leader that takes
// effect, and a new leader after each fault. A guard that refuses every write
// would pass the second check, so that guarded writes must also take effect.
package lab
