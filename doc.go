// Package conclave holds the nouns that all parts of the registry share: who a
// node is (NodeID, Role), what is published and subscribed (DataInfoID,
// Publisher, Subscriber, Datum), and in which order leaders decided (Epoch).
// It knows no other package; every other one knows it.
//
// # What Conclave is
//
// A service registry in the style of SOFARegistry. Clients publish values under
// names and subscribe to names. Sessions hold the clients' connections and the
// truth about what they publish. Data nodes keep an index of it in memory, split
// in slots, each with a leader and followers. Metas elect a leader among them
// through one row in MySQL; that leader keeps the members, the slot table and the
// blacklist.
//
//	client --publish--> session --write--> data (slot leader) --feed--> data (follower)
//	client <---push---- session <--feed--- data
//	                       \-- beats --> meta (leader) <-- beats --/
//	                                        |
//	                                   MySQL, under the term
//
// # The tour
//
// About two hours, in this order. Each package's doc.go is a chapter; read it
// first, then the files in the order named.
//
//  1. This package: conclave.go, datainfo.go, publisher.go.
//  2. slot: slot.go (a row and its phases), arrange.go (the next table as a pure
//     function), tend.go. Then lease and blacklist, both small.
//  3. elector: strategy.go (the seam), elector.go and round.go (the loop),
//     leadership.go (a term is a context). Then elector/termcas: strategy.go (a
//     round), win.go, renew.go, witness.go, beside the statements in sql/lock; sql is
//     what they are sent with. Other ways to agree: versioncas, rowlock, zklatch.
//  4. wire: v1/*.proto, the protocol; interceptor.go, fence.go and view.go, what
//     every receiver does.
//  5. meta: server.go, leader.go (all that exists only while leading), join.go
//     (the stream to each node), members.go, warmup.go, arranger.go (persist, then
//     publish), protection.go; metaclient is the nodes' side of the stream.
//  6. data: store.go (copies, versions), slots.go (what the table asks of a node),
//     migrate.go and diff.go (how a slot comes to serve), replicate.go and
//     follow.go, owners.go (when a session is really gone), stop.go.
//  7. session: registry.go (the truth), writer.go, fence.go and diff.go, feed.go,
//     topics.go and push.go (from a change to a push), guard.go, stop.go.
//  8. client: client.go, link.go (reconnect and replay), publication.go.
//  9. chaos: doc.go, a story of scenarios/, player.go, then the judges; sim plays
//     them on the whole cluster in one bubble of virtual time, chaos/processes and
//     chaos/containers for real.
//  10. cmd/meta/main.go: how a process is put together; internal/supervisor,
//     internal/compose and cmd/conclave: how a cluster is. Then bench, which measures
//     one, and lab, which compares elections.
package conclave
