// Package simnet is a network in memory: hosts that listen and dial by
// host:port, connections that buffer what is written, and a host that can be
// cut off as a kill cuts a process off.
//
// It satisfies wire.Network, so that the very servers, clients and database
// drivers of the processes run over it inside a testing/synctest bubble, where
// time moves only when every goroutine waits. For that, nothing here holds a
// mutex while it waits: readers and writers wait on condition variables, which
// the bubble counts as waiting, and deadlines are timers.
//
// What it guarantees: bytes arrive in order and whole; a dial to a host that is
// up but does not listen is refused (ECONNREFUSED) at once; when a host is cut,
// both ends of every connection of it fail, and dials to it are refused, as the
// kernel of a killed process does it.
//
// What it does not do: latency, loss, partitions and frozen hosts. They are the
// proving ground's, which builds on this.
package simnet
