// Package conclave defines the types that all parts of the registry share: the
// identity of a node (NodeID, Role), what clients publish and subscribe
// (DataInfoID, Publisher, Subscriber, Datum), and the order of the leaders'
// decisions (Epoch). It imports no other package of the module.
//
// # What Conclave is
//
// A service registry in the style of SOFARegistry. Clients publish values under
// names and subscribe to names. Sessions hold the clients' connections and are
// the source of truth about what they publish. Data nodes keep a derived copy
// of it in memory, divided into slots, each with a leader and followers. The
// meta nodes elect a leader through one row in MySQL; the meta leader keeps the
// member list, the slot table and the blacklist.
//
//	client --publish--> session --write--> data (slot leader) --feed--> data (follower)
//	client <---push---- session <--feed--- data
//	                       \-- beats --> meta (leader) <-- beats --/
//	                                        |
//	                                   MySQL, under the term
//
// # The tour
//
// The tour takes about two hours. Read the packages in this order; in each,
// read doc.go first and then the files that are named.
//
//  1. This package: conclave.go, datainfo.go, publisher.go.
//  2. slot: slot.go (a row and its phases), arrange.go (the next table as a
//     pure function), rebalance.go. Then lease and blacklist, both small.
//  3. elector: strategy.go (the interface to the store), elector.go and
//     round.go (the loop), leadership.go (a term is a context). Then
//     elector/termcas: strategy.go (a round), win.go, renew.go, witness.go,
//     together with the statements in sql/lock; package sql sends them. Other
//     strategies: versioncas, rowlock, zklatch.
//  4. wire: v1/*.proto (the protocol), interceptor.go, fence.go and view.go
//     (what every receiver checks).
//  5. meta: server.go, leader.go (what exists only while the node leads),
//     join.go (the stream to each node), members.go, warmup.go, arranger.go
//     (store, then publish), protection.go; metaclient is the other end of the
//     stream.
//  6. data: store/store.go (copies, versions), slots.go (what the table asks of a
//     node), migrate.go and diff.go (how a slot comes to be served),
//     replicate.go and follow.go, owners.go (when a session counts as lost),
//     stop.go.
//  7. session: registry/doc.go, and there publish.go, queue.go, diff.go, and
//     push.go and guard.go (from what was read to a push); then server.go,
//     writer.go, feed.go, reader.go, stop.go.
//  8. client: client.go, link.go (reconnect and replay), publication.go.
//  9. testbed: doc.go and cluster.go; scenario/doc.go, one of
//     scenario/library/, scenario/player.go; then check, the checks of the
//     recorded history. simulated runs scenarios on a whole cluster in one
//     bubble of virtual time; local and containers run them for real.
//  10. cmd/meta/main.go: how a process is assembled; testbed/local/supervisor,
//     testbed/containers/compose and cmd/conclave: how a cluster is. Then
//     testbed/bench, which measures a cluster, and lab, which compares elections.
package conclave
