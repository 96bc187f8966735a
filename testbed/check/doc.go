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
// I1 to I13 are the invariants of ARCHITECTURE.md, L1 to L24 the rules, and P1 and P2 what
// must be linearizable; the lists are in rules.go, burst.go, slots.go, linear.go,
// election.go and clients.go. What each checks in detail, and what excuses it, is the
// comment of its function; limits.go has the times in which values may be missing or old.
//
// A history that joins a run (History.Joined) begins where another one has ended. No
// checker concludes from the absence of an entry there if it could be from before.
//
// # Files, in reading order
//
// A file uses what later files declare.
//
//   - checker.go: every checker, subject by subject.
//   - rules.go: the rules L1 to L22.
//   - burst.go: a burst of load leaves nothing behind.
//   - dead.go: when the registrations of a dead client are gone.
//   - progress.go: what must become true after the healing.
//   - operator.go: an operator's commands end no service, and a drain or a stop leaves
//     a node no slot.
//   - figure.go: what a scenario measures.
//   - slots.go: the invariants of slots, also under a blacklist, and that they are
//     served in time.
//   - linear.go: what must be linearizable.
//   - election.go: the invariants of the election, and statements, from the two events
//     around each.
//   - registrations.go: the rules about registrations.
//   - clients.go: the invariants of clients, and what excuses a missing value.
//   - limits.go: when values may be missing or old, as ARCHITECTURE.md has it.
//   - verdict.go: a checker and its verdict.
//   - history.go: the record of a run.
//   - faults.go: when a fault affected which hosts, and the cluster's graces.
package check
