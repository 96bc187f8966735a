// Package processes plays scenarios on a cluster of local processes: it kills,
// stops and continues them by signals, and breaks the network between them with
// proxies (package faultnet) that stand before every node and the database.
//
// What only virtual time can do is not done here, and said so by
// chaos.ErrUnsupported: wall clocks cannot be set, and nodes cannot be held between
// two statements. What they claim they write into files, which are read when the
// story is over. The same scenario shows there what this one cannot; this one shows
// that the programs, the kernel's sockets and its signals behave as the simulator
// assumes.
package processes
