// Package sim runs the whole cluster, database included, inside one
// testing/synctest bubble: the same servers that the processes run, over a
// network in memory, with time that moves only when every goroutine waits. A
// minute of a cluster's life takes about a second.
//
// # How it stands beside the processes
//
//	cmd/meta, cmd/session, cmd/data, cmd/devdb        sim.Cluster
//	+----------------------------------------+        +-----------------------------+
//	| flags, signals, exit codes              |        | Start, Kill, Stop           |
//	| meta.Server, session.Server, ...        |  same  | meta.Server, session.Server |
//	| HTTP/2, Connect, go-sql-driver          |  same  | HTTP/2, Connect, the driver |
//	| wire.TCP                                |        | simnet.Host                 |
//	+----------------------------------------+        +-----------------------------+
//
// A crash is a cut and then a cancelled context: first nobody can hear the node
// any more, then its goroutines end, telling nobody, as in a killed process. A
// restart is a new incarnation.
//
// # What it guarantees
//
// What a story asserts holds for the code of the processes, at the resolution of
// this network: in order, without latency, with connections that break at once.
//
// # What it does not show
//
// The embedded server is no MySQL, and a bubble has no scheduler noise, no
// kernel, no disks. Faults other than crash and stop (cuts, latency, frozen
// hosts, clock steps) come with the proving ground.
package sim
