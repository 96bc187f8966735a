// Package session is the role between clients and data nodes. A session holds
// the connections of its clients, the registrations that they publish, and the
// lists that they subscribe to.
//
// Each registration has its source of truth at exactly one session: the one that its
// client is connected to. Data nodes keep copies, which can be built again from the
// sessions at any time (article 002). A session therefore never asks whether a
// registration is right. It sends the registration to data and retries until data
// acknowledges it.
//
// # The way of a registration
//
//	(sent) --> accepted --> queued --> written at the slot's epoch e --> stored
//	             |            ^                    |
//	    the session resends   +--------------------+ refused, lost, or a newer
//	    it to data              1, 2, 4 .. 50 ms     epoch adopted meanwhile
//
// Accepted means that the registration is in the session's set: it survives a broken
// client connection for the client lease, and the death of any data node. Stored means
// that the slot's leader took it at the epoch that was current at that moment. An
// acknowledgement that arrives after a newer epoch was adopted does not count, and the
// registration is written again. The order within a slot is kept: one Write per node is in
// flight at a time, and the newest change of an id replaces the older ones in the queue.
//
// A registration may be published to data only for two thirds of the session grace after
// the last ping of its client arrived (registry.Owner), so a session that was suspended
// restores nothing that its clients have changed or withdrawn at another session. The
// orderly end of a request stream is the client's last message: the client uses no other
// session afterwards, and registrations that it announced to leave behind (a linger) may
// be published until the linger ends, by another session if this one stops; its end
// withdraws them, as a good-bye does. A client that moves to another session must break
// its stream off instead.
//
// A client without a stream (registrants.go) is the owner of one registration, and is
// treated as if its connection had just broken: its time to live is the lease, and each of
// its requests is a return. Data answers a Write with the versions that hide a put, so that
// no registration is reported as stored that no subscriber sees: the request is refused
// with that version, or a higher one is chosen if it had none.
//
// # The fence
//
// A data node that takes over a slot asks every session for its registrations in it
// (Diff). The session first adopts the asker's leader epoch for that slot and computes the
// answer under the same lock. From then on it sends nothing at a lower epoch, and counts
// no acknowledgement and no read answer of a lower one (diff.go says why). Epochs are
// adopted from the slot table and from feeds in the same way, and never fall. Locks nest
// in one order: registry, clients, outbox; only memory is touched under them.
//
// # The way of a push
//
// A data node's feed names the dataIds that have changed. One that has a subscriber here
// is read at once or, within the push window after its last read, when that window ends:
// the first change is pushed without delay, and a burst is merged. A small change of what
// this session has read is in the feed itself, and needs no read (registry.Carried),
// unless it is marked for the push guard. The read request names the hash of the content
// that is held; equal content is neither sent nor pushed again. The push guard may hold a
// push back (registry/guard.go).
//
// # What is guaranteed
//
//   - An accepted registration reaches data, whatever crashes, as long as this session
//     lives and the client stays or comes back within the client lease.
//   - A subscriber sees rising versions. It does not see an empty or halved list whose
//     publishers were not seen to withdraw until a grace has passed. Once changes stop, it
//     has the newest list.
//   - A slow client misses versions and delays no other client: its outbox holds
//     one entry per registration and subscription, the newest.
//   - A list of up to Config.MaxListBytes is pushed, in parts if it is large; a larger one is an
//     error of the subscription, and /readyz reports it (docs/adr/0093).
//   - Load makes no client look dead: a client's pings wait neither behind what it sends
//     nor for the registry's lock, and a slow data node is sent less at once. Time in which
//     this session did not run is no silence of others (docs/adr/0071).
//   - An outage of meta stops nothing here: the last slot table and member list are used
//     for as long as it lasts, and /readyz reports `stale`, while a data node is heard.
//
// # What is not guaranteed
//
//   - Persistence. All state is in memory. A restarted session is another owner, and
//     starts empty; its clients are connected to other sessions by then.
//   - Immediate detection of a client's death. A closed connection may have been reset by
//     a device between the two, and the client be on its way back; only a good-bye and a
//     withdrawal take effect at once.
//   - A push for every version.
//
// # When a part fails
//
// ARCHITECTURE.md has a row for each part. What this package does then:
//
//   - A client dies: its registrations are removed after the client lease, or after a
//     quarter of it if its connection was seen to be closed soon after a ping, no other
//     client was lost at that time, it is not back here, and this session has contact with
//     the meta leader. If clients that were lost within a grace had more than 30 % of all
//     registrations, of which the largest counts no more than the second, data marks the
//     removals as unconfirmed, and pushes that would empty or halve a list are held back;
//     but first the clients have one more lease to come back: that many deaths at once are
//     evidence against this session (docs/adr/0071). One client is never that many.
//   - Most data nodes do not answer this session, although they live: they get nothing new,
//     and remove its copies after the session grace. Before that it asks its clients to
//     move, takes no new ones, and its /readyz is 503 (docs/adr/0117). They stay if no
//     other session takes them, as after a power cut.
//   - This session is suspended: when it is back, the leases of its clients start again,
//     since no client could renew one, and their registrations are held back until the
//     clients ping again. A slot that has lost all its copies waits for that, for two
//     client leases at most, and for a third one if many clients are gone at once.
//   - All other sessions are lost while this one should drain: it keeps serving as the
//     last session, and stays in the lists given to clients, until another one takes
//     clients (docs/adr/0029). A stop waits in the same way until its deadline, and then
//     ends with an error.
//   - A data node is not heard for a node lease: the beats report it, and if most sessions
//     do, the meta leader gives its slots to others. Registrations that were not stored
//     are written to the new leaders, those that were are in the diff; subscribers keep
//     their lists until they serve.
//
// # Files, in reading order
//
// Package session/registry holds the registrations, the changes that data has not
// acknowledged, the subscriptions and what is to be pushed. It changes only its own
// memory: no goroutine, lock, network or clock. This package has the connections, the one
// lock around the registry, and the loops that send and receive. A file uses what later
// files declare. No part knows the server; each is given the parts below it and the
// functions that it needs.
//
//   - stop.go: the clients move before a stop, and what they have left goes to other sessions.
//   - server.go: the list of the parts, and how a session starts.
//   - state.go: the loop that applies the cluster's state; are clients taken, or to move?
//   - admin.go: what operators are shown, and what is measured.
//   - spread.go: clients move to sessions that have fewer.
//   - consul.go: the ports for other clients; those for Consul and for DNS (package session/consul).
//   - sofa.go: connections of clients of SOFARegistry, served like streams (package session/sofa).
//   - services.go: the paths /v1/services, for programs that send requests and have no stream.
//   - catalog.go: a list of all services, from the slot leaders.
//   - polls.go: requests that wait for a list are subscriptions.
//   - registrants.go: registrations by requests, each an owner with a lease.
//   - stream.go: serves one client's stream: its arrival, its messages, and until when it may be silent.
//   - subscription.go: subscriptions are taken at a pace, and configuration values are watched.
//   - publisher.go: registrations are taken, or wait for room, and are answered.
//   - leases.go: the registrations of broken connections expire.
//   - clients.go: connections: open, broken, and expired.
//   - connection.go: one of them; a request that waits for lists.
//   - backlog.go: what waits of one connection.
//   - outbox.go: what waits to be sent on it.
//   - writer.go: one Write at a time to each data node.
//   - writestream.go: the stream that they are on.
//   - reader.go: which dataIds have changed at each data node, or what they are now, and one Fetch at a time from it.
//   - nodes.go: the data nodes: their loops, what wakes and pauses them.
//   - diff.go: the registry, its lock, and the answer to a data node's diff.
//   - config.go: the configuration and its defaults.
package session
