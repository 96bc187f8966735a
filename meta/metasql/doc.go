// Package metasql is a meta node whose election, state and history are in MySQL: the
// pools of connections, the strategy of elector/termcas, and the server of package
// meta. Whatever runs a meta makes it here: the program, a cluster in one process, and
// the simulator.
package metasql
