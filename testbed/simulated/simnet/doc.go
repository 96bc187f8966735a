// Package simnet is a network in memory, with the faults of a real one: hosts
// that listen and dial by host:port, links with latency and bandwidth,
// cuts in one direction or both, resets, half-open connections, and hosts that
// are killed or paused.
//
// It implements wire.Network, so that the same servers, clients and database
// drivers that the processes use run over it inside a testing/synctest bubble,
// where time advances only when every goroutine waits. No goroutine holds a
// mutex while it waits: readers wait on condition variables, which the bubble
// counts as waiting, and delayed bytes are delivered by a timer.
//
//	Write ─▶ link a→b: bandwidth, latency ─▶ in flight ─▶ arrived ─▶ Read
//	           │ a is paused: held until it is resumed │ cut:
//	           ▼                                       ▼ sent again after 200, 400, 800 ms
//	                                         b has no such connection: a reset goes back
//
// # Faults
//
//	Kill      the process dies, its kernel lives: a FIN is sent on each connection, and dials are refused
//	Pause     the process is suspended (SIGSTOP): its kernel accepts connections and bytes, the process does not
//	          read them, and what it would have written is sent when it is resumed
//	Cut       nothing passes from a to b; what was sent is sent again, with growing delays, and arrives after Heal
//	Reset     the connections between a and b are reset at both ends
//	HalfOpen  the connections between a and b are closed at b only; a gets a reset when it writes
//	LoseNext  the next bytes from a to b are not sent, and their connection breaks: an answer is lost
//	Shape     latency and its spread, bandwidth of a direction
//
// # Finite machines
//
// A host can have a [Budget]: its one processor then serves what arrives on its
// connections, which take turns, and queues form in virtual time. Without a budget
// bytes can be read at the instant at which they arrive.
//
//	connection 1 ─▶ arrived ─┐
//	connection 2 ─▶ arrived ─┼─▶ served, 10 ms a turn: Message, and Byte for each byte ─▶ Read
//	connection 3 ─▶ arrived ─┘
//	      ▲             └── while Queue bytes wait here, what follows on a connection that waits
//	      └── stays at its sender
//
// So a connection of its own delays what it carries by one turn of each busy
// connection only; a stream of its own on a busy connection gains nothing, as on a
// real network. Nothing is served first: a processor knows no priorities.
//
// # Guarantees
//
// Bytes arrive in order and complete, or the connection breaks. Each direction
// of each pair of hosts draws from its own random stream, which is seeded with
// the network's seed and the two names: with a spread latency no two events
// fall on one instant, and what happens on one link does not change another
// link's draws. Without shapes and faults bytes arrive at the instant at which
// they are sent.
//
// # Limits
//
// Writes never block: there is no send window. HTTP/2 holds a mutex while it
// writes, and time does not advance in a bubble while a goroutine waits for one.
// What a host with a budget has no room for therefore costs memory at its sender;
// only the windows of HTTP/2 limit it. And a reader that never reads costs memory
// here, where on a real network its writer would block. There are no packets, so nothing is reordered or duplicated, and a lost acknowledgement
// shows only in what the other direction does. A processor with a budget is used
// by bytes only: timers, and what a process computes without a message, take no
// time, what a busy process sends leaves at once, and there is one processor,
// whatever the number of goroutines that could share more.
package simnet
