// Package simnet is a network in memory, with the faults of a real one: hosts
// that listen and dial by host:port, links with latency, loss and bandwidth, cuts
// in one direction or both, resets, half-open connections, hosts that are killed,
// frozen, or without power.
//
// It satisfies wire.Network, so that the very servers, clients and database
// drivers of the processes run over it inside a testing/synctest bubble, where
// time moves only when every goroutine waits. For that, nothing here holds a
// mutex while it waits: readers wait on condition variables, which the bubble
// counts as waiting, and what arrives later arrives by a timer.
//
//	Write ─▶ link a→b: loss, bandwidth, latency ─▶ in flight ─▶ arrived ─▶ Read
//	           │ a is frozen: held until it thaws      │ cut, or b without power:
//	           ▼                                       ▼ sent again after 200, 400, 800 ms
//	                                         b knows no such connection: a reset goes back
//
// # What a fault is here
//
//	Kill      the process dies, its kernel lives: ends (FIN) of all connections leave, dials are refused
//	PowerOff  the host dies: nothing leaves, nothing is answered; after PowerOn old connections are reset
//	Freeze    the process stands still (SIGSTOP): its kernel accepts connections and bytes, nobody reads them,
//	          and what the process would have written leaves when it thaws
//	Cut       nothing passes from a to b; what was sent is sent again, with growing pauses, and arrives after Heal
//	Reset     the connections between a and b break, and both ends know
//	HalfOpen  the connections between a and b are gone for b; a finds out when it writes
//	LoseNext  the next bytes from a to b are not sent, their connection breaks instead: an answer is lost
//	Shape     latency and its spread, loss, bandwidth of a direction
//
// # What it guarantees
//
// Bytes arrive in order and whole, or the connection breaks. Each direction of
// each pair of hosts draws from a random stream of its own, which the network's
// seed and the two names decide: with a latency that is spread no two events fall
// on one instant, and what happens on one link does not change another's draws.
// Without shapes and faults everything arrives at once.
//
// # What it does not do
//
// Writes never wait: there is no window that fills. A reader that never reads
// costs memory here and would stop its writer on a real network. There are no
// packets, so nothing is reordered or doubled, and lost acknowledgements show
// only as what the other direction does.
package simnet
