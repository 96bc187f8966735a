// Package processes plays scenarios on a cluster of local processes. It kills,
// pauses and continues them with signals, and breaks the network between them
// with proxies (package faultnet) in front of every node and the database.
//
// Wall clocks cannot be set, and nodes cannot be held at points of their code;
// these acts return chaos.ErrUnsupported. The nodes write their trace events
// into files, which are read at the end of the scenario. The simulator (package
// sim) can do more; this package shows that the programs, the kernel's sockets
// and its signals behave as the simulator assumes.
package processes
