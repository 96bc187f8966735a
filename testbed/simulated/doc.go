// Package simulated runs the whole cluster, including the database, inside one
// testing/synctest bubble: the servers that the processes run, over a network
// in memory, with time that advances only when every goroutine waits. A minute
// of a cluster under faults takes half a second.
//
// # Comparison with the processes
//
//	cmd/meta, cmd/session, cmd/data, cmd/devdb        simulated.Cluster
//	+----------------------------------------+        +-----------------------------+
//	| flags, signals, exit codes              |        | Open, Do, Observe           |
//	| meta.Server, session.Server, ...        |  same  | meta.Server, session.Server |
//	| HTTP/2, Connect, go-sql-driver          |  same  | HTTP/2, Connect, the driver |
//	| wire.TCP                                |        | simnet.Host                 |
//	| the file of cmd/devdb                   |        | devdb.Tables                |
//	+----------------------------------------+        +-----------------------------+
//
// A [Cluster] is a testbed.Cluster. It plays the same scenarios as those of processes
// and of containers, and supports every action of a scenario, except that only sessions
// and data nodes start at a wrong address.
//
//	Kill      the network closes the process's connections, then its goroutines end; a restart is a new incarnation
//	Pause     the process reads nothing, what it writes is not sent, and it waits at a Point between check and action
//	Cut, Slow, Reset, HalfOpen, LoseNext      see simnet
//	Hold      a node between check and action; a request that has arrived, before it is handled; and at the database
//	          a statement of the leader, which is executed even if its connection breaks (statements.go)
//	Refuse    the database answers statements of a kind with an error, and does not execute them (statements.go)
//	Skew      Config.Now of a node; NOW() of the database
//	budget    a node has one processor, on which its connections take turns, and queues form (simnet.Budget)
//	drift     every start draws a factor for all durations of the process, 1 plus or minus up to 200 millionths
//
// # One seed, one trace
//
// The seed determines the scenario, its faults, every delay of every link,
// every jitter of every loop, and all ids. It does not determine the order of
// events at one instant, which Go's runtime chooses at random: which ready case
// a select takes, which of two timers fires first. So a second play of a seed
// has the same scenario but may end differently. The command onetrace writes an
// overlay for the go command that seeds these choices too. With it two plays of
// a seed are equal in every byte that is sent and in every line of the history
// (TestOneSeedOneTrace). make sim uses it if it fits the installed Go.
//
//	make sim                    a hundred storms in two processes
//	make sim SEEDS=10000        that number of storms
//	make sim SEED=17            one storm, with its log and its history; if it fails: what led to it, the earliest fault without which
//	                            it does not, and the shortest scenario that does
//	make sim SCENARIO=f16       a built-in scenario
//	make sim SEED=17 RECORD=17.rec   records it: every message, state, fault and event (package journal)
//	make sim SHRINK=0           a hundred storms; failures are not shrunk
//	make sim TWICE=20           twenty seeds, each played twice and compared
//	make diagram                plays a failover and draws it (docs/failover.svg)
//	make sim SEEDS=200 COVER=1  also measures the coverage of the cluster's code
//
// # Limits
//
// Without a budget computing takes no time and no queue ever forms; with one,
// only messages do. The embedded server is not MySQL, and a bubble has no
// scheduler noise, no kernel and no disks. The goroutines of a paused process continue to compute;
// only their effects on other processes are held back, and they stop only at
// the points of package trace. Writes never wait for a slow reader.
//
// # Files, in reading order
//
// A file uses what later files declare.
//
//   - play.go: one scenario is played in a bubble.
//   - open.go: a cluster is opened and closed.
//   - acts.go: how each action is done.
//   - observe.go: what can be observed from outside, and the copies of slots.
//   - recording.go: messages and states are recorded.
//   - process.go: processes start, stop and are killed.
//   - client.go: clients of the cluster.
//   - node.go: the nodes of each role.
//   - statements.go: statements are intercepted on their way to the database.
//   - seed.go: without the build tag onetrace, the runtime chooses at random.
//   - seed_onetrace.go: with it, the choices of the runtime are seeded too.
//   - cluster.go: the cluster: hosts, links, clocks.
package simulated
