// Package registry is what one session holds for its clients: the registrations
// that they publish, the changes of them that data has not acknowledged, what
// they subscribe to, and what is still to be sent to each. It is pure. It has no
// goroutine, no network, no lock, no logger and no clock: it is given the time,
// and returns what is to be sent and whether there is something to do. Package
// session owns one Registry, guards it with one lock, and moves what it returns.
//
// Of each registration id the highest version is held, live or a tombstone; it
// belongs to the connection that sent it last, and is published only while that is
// fresh (Owner). Of each slot the highest leader epoch is adopted: changes are taken
// and topics read at that epoch, and an answer counts only if it still is the
// slot's when the answer arrives (Adopt, Settle, Diff). What is pushed as version v
// is the datum at version v, and versions rise per subscription (guard).
//
// # Who calls what
//
//	a client's messages     Sources, Put, Withdraw; Subscribe, Unsubscribe; Renew
//	its end                 End, Linger, Release; Disown when its lease expires
//	a stop                  Holdings, Messages
//	the slot table          Resize, Adopt
//	a loop that writes      Unwritten, Take, Settle, Refuse; Audit
//	a loop that reads       Unread, TakeReads, Fetched, Retry
//	a data node's feed      Adopt, Refresh, Changed, Carried
//	a data node's diff      Diff
//
// # Files, in reading order
//
//   - view.go: what operators are shown.
//   - outbox.go: what is still to be sent to one client, and the acknowledgements in it.
//   - queue.go: the changes that data has not acknowledged.
//   - diff.go: the answer to a data node that compares its copies.
//   - publish.go: registrations come, change, go, and are copied for another session.
//   - push.go: subscriptions come and go, and what was read is offered to them.
//   - read.go: which topics are to be read, and what the answers make of them.
//   - registry.go: the registry, the number of its slots, and how much clients may hold.
//   - guard.go: when a push is held back.
//   - slot.go: one slot: its fence, registrations, queue and topics.
//   - topic.go: a topic, its content and its subscriptions.
//   - registration.go: a registration, a change of it, and the classes of changes.
//   - owner.go: a connection, and until when its registrations may be published.
package registry
