// Package local plays scenarios on a cluster of local processes. It kills,
// pauses and continues them with signals, and breaks the network between them
// with proxies (package faultnet) in front of every node and the database.
//
// Wall clocks cannot be set, and nodes can neither be held at points of their code nor
// started at a wrong address; these actions return testbed.ErrUnsupported. The nodes write their trace events
// into files, which are read at the end of the scenario. The simulator (package
// simulated) can do more; this package shows that the programs, the kernel's sockets
// and its signals behave as the simulator assumes.
//
// # Files, in reading order
//
// A file uses what later files declare.
//
//   - act.go: how each action is done to processes, and second processes of a node.
//   - cluster.go: the processes, their proxies and their clients.
package local
