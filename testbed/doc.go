// Package testbed declares what a cluster under test is: a [Cluster] that is
// started, disturbed and observed, its [Capabilities], the [Action] that is done
// to it, and the [Snapshot] that is seen of it.
//
//	simulated    the whole cluster in one testing/synctest bubble, with its network (simnet)
//	local        processes of this machine (supervisor), with proxies between them
//	containers   containers of Docker Compose
//	outside      what local and containers have in common: they are observed over HTTP
//	scenario     the language, the player, the built-in scenarios, storms, shrinking
//	check        histories, checkers and figures: each invariant has its checker there
//	console      the page on which a cluster is watched and operated; console/live observes it
//	demo         the demo's scenario and its narrator
//	load         clients that publish, update and subscribe, and what they measure
//	bench, soak  measurements and growth curves; faults under load for hours
//	report       results as HTML and JSON
//
// # From a scenario to a result
//
//	scenario/library/*.txt, or scenario.Storm(seed)
//	      |  Parse
//	      v
//	  Scenario ----> player ----> Cluster: simulated, local, containers
//	                   |             |
//	                   |   faults    |  events of nodes (internal/trace), pushes to clients
//	                   v             v
//	                 Recorder --> History --> checkers: I1..I13, L1..L24, P1, P2 --> Verdicts
//	                                    \---> gauges ------------------------------> Figures
//
// The parts share nothing but their data. A Cluster checks nothing, a checker has no
// access to it, and the same file can be played on every Cluster that can do its actions
// (Capabilities): the simulated one can do nearly all, containers the fewest.
//
// # What is not guaranteed
//
//   - A scenario without violations is no proof: it is one run.
//   - On processes and containers no clock runs at another speed. (The bubble gives
//     each process its own drift.)
//   - The simulated cluster has neither tokens nor certificates.
//   - Faults of the database's disk, and two databases that both accept writes,
//     are not covered.
//
// # Files, in reading order
//
// A file uses what later files declare.
//
//   - real.go: what else a cluster of processes can be asked.
//   - cluster.go: the one interface to a cluster, what can be observed of it, and what is possible on it.
//   - budget.go: what the processor of a simulated node can do.
//   - active.go: the faults that last now.
//   - status.go: what a process shows of itself.
//   - step.go: a step as it is written in a scenario.
//   - action.go: what can be done to a cluster, and what ends it.
package testbed
