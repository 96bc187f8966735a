// Package wire is the communication between the processes: the protocol
// (wire/v1/*.proto, one file per service), the network, and the rules that
// every receiver applies.
//
// # Reading order
//
// Start with the protocol, wire/v1/common.proto and the five files next to it.
// Then read network.go, the only interface between a node and the world
// outside; interceptor.go and fence.go, which run before every call; view.go,
// what a node knows of the cluster; and error.go, how errors are transmitted.
// peers.go is the calling end of a connection, with TLS or without, whole.go how it
// sends a message, and event.go an entry of a node's event log and how it is read. Package
// wire/serve is the other end, and what all roles serve over HTTP. Package wire/list is
// how the content of a datum travels, wire/admit bounds what peers may have at a time.
//
// # What a receiver does
//
//	              +---------------------------------------------+
//	request ----> | right? -> term >= highest seen? -> handler  | ----> answer
//	(term, table  | (router)  (Fence: refuses      (may refuse: |  (table epoch)
//	 epoch, from) |            and counts)          moved, ...) |
//	              +---------------------------------------------+
//	                   |  the peer's table is newer than mine
//	                   v
//	              fetch the table from that peer (Interceptor.Behind)
//
// # Guarantees
//
//   - A node that has seen a term obeys no command of an older one (Fence), and
//     no state of an older epoch replaces a newer one (View). Both count what
//     they refuse.
//   - Any node may pass a state on: each kind was written to the database under
//     its term before it was first published, and carries its epoch.
//   - An error keeps its code from node to node. Every failure of the transport
//     is "unavailable"; Refused still distinguishes a refused dial from a
//     timeout.
//
// # What is not guaranteed
//
//   - A Fence is kept in memory. A restarted node has seen no term until the
//     first message that carries one. Until then the database protects it: each
//     effect of a leader there is a statement under its term.
//   - Without TLS (Peers.UseTLS), tokens can be read on the way: keep the nodes'
//     network private.
//   - A message is delivered at most once. All services consist of messages
//     that may be repeated; see the comments in the .proto files.
//
// # What happens when a peer dies
//
// A killed process closes its sockets: streams end and calls fail at once. A
// frozen or disconnected peer is detected after three seconds at the latest (a
// client by its session after six), by an HTTP/2 ping without an answer. Services
// that must be faster send heartbeats of their own.
package wire
