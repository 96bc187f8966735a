// Package inprocess runs the roles of a cluster inside one process. The servers are
// those that the programs run; what differs is where they listen (node.Config.Network,
// devdb.Config.Listener) and how they end: a [Process] starts, stops and is killed
// like a process of the operating system.
//
//	roles.go    a server of each role, also for the simulator (testbed/simulated)
//	process.go  the life of one server
//	cluster.go  a whole cluster on loopback, for `conclave dev` and package conclavetest
//	host.go     the port of one node, which hold_linux.go keeps while it is down
//
// A killed server closes its connections and notifies no other node, as after
// kill -9. It cannot be suspended, and all servers share one heap and one clock: what
// needs processes is tested on those of testbed/local.
package inprocess
