// Package console is the page on which a cluster is watched and operated: a map
// of its nodes, the slots, the terms, the promises that are checked, and the
// events. It serves the page and one stream of changes; what is shown comes from
// a [Source], to which what a viewer does goes.
//
//	Source --Show--> Hub --stream--> page   (any number of viewers)
//	Source <--Act--- Server <--POST-- page
//
// A source observes a running cluster (package live), or plays a recording.
//
// # The stream
//
// A viewer gets one snapshot and then changes, as server-sent events. A change has
// only what differs from the state before: entries of maps and fields of State,
// with null for what is gone. A viewer that connects again gets a snapshot. A
// message is encoded once for all viewers, and written once to each. The time alone
// is sent once a second.
//
// # Guarantees
//
//   - A viewer that stops reading is dropped; nothing waits for it.
//   - Only the holder of the one-time link can act, and only from the page itself:
//     see Server.
//
// # Files, in reading order
//
// A file uses what later files declare.
//
//   - server.go: the page, the stream and the actions over HTTP.
//   - access.go: who may watch and who may act.
//   - source.go: what a source is.
//   - hub.go: the state, its changes, and the viewers.
//   - state.go: what the page shows.
package console
