// Package sim runs the whole cluster, database included, inside one
// testing/synctest bubble: the same servers that the processes run, over a
// network in memory, with time that moves only when every goroutine waits. A
// minute of a cluster's life under faults takes half a second.
//
// # How it stands beside the processes
//
//	cmd/meta, cmd/session, cmd/data, cmd/devdb        sim.Cluster
//	+----------------------------------------+        +-----------------------------+
//	| flags, signals, exit codes              |        | Open, Do, Look              |
//	| meta.Server, session.Server, ...        |  same  | meta.Server, session.Server |
//	| HTTP/2, Connect, go-sql-driver          |  same  | HTTP/2, Connect, the driver |
//	| wire.TCP                                |        | simnet.Host                 |
//	| the file of cmd/devdb                   |        | devdb.Tables                |
//	+----------------------------------------+        +-----------------------------+
//
// A [Cluster] is a chaos.Driver: it plays the same scenarios as the drivers for
// processes and for containers, and can do all that a scenario can ask for.
//
//	Kill      the network forgets the process, then its goroutines end; a restart is a new incarnation
//	Pause     nothing is read, nothing that is written leaves, and at a Point between check and act it waits
//	Cut, Slow, Reset, HalfOpen, LoseNext      see simnet
//	Hold      a node between check and act; a request that has arrived and is not looked at; and at the database a
//	          statement of the leader that is under way: it goes on whatever becomes of its connection (landing.go)
//	Skew      Config.Now of a node; NOW() of the database
//	drift     every start draws how much longer or shorter all of its durations are, up to 200 millionths
//
// # One seed, one trace
//
// The seed decides the story, its faults, every delay of every link, every jitter
// of every loop, and all ids. What happens at one instant has an order of its
// own, though, and there the runtime of Go draws on purpose: which ready case a
// select takes, which of two timers fires first. So a replay is told the same
// story, and not always to the same end. The command onetrace writes an overlay
// for the go command that seeds those draws, too; then two plays of a seed are the
// same, byte by byte of what is sent and line by line of the history
// (TestOneSeedOneTrace). make sim uses it where it fits the installed Go.
//
//	make sim                    a hundred storms, two processes side by side
//	make sim SEEDS=10000        that many
//	make sim SEED=17            one of them, with its log and its history; shrunk if it fails
//	make sim SCENARIO=f16       a story
//	make sim SHRINK=0           a hundred; those that fail are not taken apart
//	make sim TWICE=20           twenty seeds, each played twice and compared
//	make sim SEEDS=200 COVER=1  and how much of the cluster's code they ran
//
// # What it does not show
//
// The embedded server is no MySQL, and a bubble has no scheduler noise, no
// kernel, no disks. A paused process's goroutines go on between two acts: what
// they would do is kept from the others, what they compute is not; they stop at the
// points of package trace only. Writes never wait for a slow reader.
package sim
