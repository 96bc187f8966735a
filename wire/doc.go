// Package wire is how the processes speak: the protocol (wire/v1/*.proto, one
// page per conversation), the network they speak over, and the rules that every
// receiver keeps.
//
// # Reading order
//
// Begin with the protocol itself, wire/v1/common.proto and the five pages
// beside it; then network.go, the one seam between a node and the world;
// interceptor.go and fence.go, what stands before every call; view.go, what a
// node knows of the cluster; error.go, how a refusal travels. peers.go and
// server.go are the two ends of a connection, router.go and events.go what all
// roles show over HTTP.
//
// # What a receiver does
//
//	              +---------------------------------------------+
//	request ----> | token? -> term >= highest seen? -> handler  | ----> answer
//	(term, table  | (router)  (Fence: refuses      (may refuse: |  (table epoch)
//	 epoch, from) |            and counts)          moved, ...) |
//	              +---------------------------------------------+
//	                   |  the peer's table is newer than mine
//	                   v
//	              fetch the table from that peer (Interceptor.Behind)
//
// # Guarantees
//
//   - No command of an older term is obeyed by a node that has seen a newer one
//     (Fence), and none of an older epoch replaces a newer state (View). Both
//     count what they refused.
//   - A state may be handed on by anyone: each kind was written to the database
//     under its term before it was first published, and carries its epoch.
//   - An error keeps its code across a hop; whatever breaks in the transport is
//     "unavailable", and Refused still tells a refused dial from silence.
//
// # What is not guaranteed
//
//   - A Fence is memory: a node that restarts has seen nothing, until its first
//     answer from anyone. What protects it meanwhile is the database, where each
//     effect of a leader is a statement under its term.
//   - There is no TLS inside the cluster, and the token is a shared secret: keep
//     the nodes' network private.
//   - Delivery is once at most. Every conversation is made of messages that may
//     be repeated; see the comments in the .proto pages.
//
// # What happens when a peer dies
//
// A killed process closes its sockets: streams end and calls fail at once. A
// frozen or cut-off one is noticed by an HTTP/2 ping that stays unanswered,
// after three seconds at the latest; the conversations that must be faster
// carry beats of their own.
package wire
