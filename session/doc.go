// Package session is the role between the clients and the data nodes: it holds
// the clients' connections, the truth about what they publish, and the lists
// that they subscribe to.
//
// A registration lives, with its truth, at exactly one session: the one that its
// client is connected to. Data nodes keep copies, which can be made again from
// the sessions at any time (article 002). So a session never asks whether a
// registration is right; it only sees to it that data has it, and goes on until
// it is told so.
//
// # The parts, in reading order
//
//	client --Connect--> connect.go   one client's stream; outbox.go: what it is still to be told
//	                    clients.go   who is connected, who broke lately, who is gone
//	                    vouch.go     how long a connection vouches for what came by it
//	  registrations  -> registry.go  the set: the truth; queue.go: what data is not known to have
//	                    writer.go    one Write at a time to each data node          --Write-->  data
//	  diffs          <- diff.go      what a data node lacks of the set; a fence     <--Diff---  data
//	                    fence.go     per slot: the highest leader epoch adopted
//	  changes        <- feed.go      which dataIds changed                          <--Watch--  data
//	  readings       <- reader.go    one Fetch at a time from each data node        <--Fetch--  data
//	  pushes        <-- topics.go    what is subscribed and read; push.go: what of it is offered to
//	                                 whom; guard.go: what is held back
//	  the cluster       state.go     table, members, switches, blacklist; nodes.go: the loops per data node
//	  the process       server.go, stop.go, http.go, metrics.go, config.go
//
// # A registration's way
//
//	(sent) --> accepted --> queued --> written at the slot's epoch e --> stored
//	             |            ^                    |
//	   the session tells      +--------------------+ refused, lost, or a newer
//	   data from now on         1, 2, 4 .. 50 ms     epoch was adopted meanwhile
//
// Accepted means that it is in the set: it survives the client's connection by
// the client lease, and every death of a data node. Stored means that the slot's
// leader took it at the epoch that was the slot's at that moment; an acceptance
// that arrives after a newer epoch was adopted does not count, and the
// registration is written again. Each slot's order is kept, since one Write per
// node is under way and an id's newest change replaces the older ones in line.
//
// Data is told of a registration only as long as its connection vouches for it: two
// thirds of the session grace after each word of its client. This is asked when it
// is written and when a diff is answered, so that a session that stood still for a
// minute, and wakes with a minute's worth of requests before any of its timers,
// brings back nothing that its clients have changed or withdrawn elsewhere. The end
// of a request stream, in order, is its client's last word: it speaks to no other
// session, and what it announced to leave behind (a linger) is vouched for until
// then. A client that goes elsewhere must break its stream off instead.
//
// # The fence
//
// A data node that takes over a slot asks every session for its part of it
// (Diff). The session first adopts the asker's leader epoch for that slot and
// computes the answer under the same lock. From then on it neither sends to, nor
// counts an acceptance or a reading from, a lower epoch. Without that, a session
// could publish to the old leader and read it there after the new leader had its
// answer, and then un-read it at the new one. Epochs are adopted from the slot
// table and from feeds in the same way; they never fall. Under the fence's lock
// only memory is touched, and the other locks nest in one order: fence,
// registry or topics, outbox.
//
// # A push's way
//
// A data node's feed says which dataIds changed. If somebody here subscribes to
// one, it is read at once, or, within the push window after its last reading,
// when that window ends: the first change goes out without delay, a burst is
// merged. The reading names the hash of what is held, and equal content is
// neither sent nor pushed again. What is pushed as version v is exactly the
// datum at version v; versions rise per subscriber. The guard may hold a push
// back (see guard.go), never change it.
//
// # What is guaranteed
//
//   - An accepted registration reaches data, whatever dies, as long as this
//     session lives and its client stays or comes back within the client lease.
//   - A subscriber sees rising versions, never an empty or halved list whose
//     publishers were not seen to withdraw, until a grace has passed; and, when
//     all is quiet, the newest list.
//   - A slow client costs itself versions, and others nothing: its outbox holds
//     one entry per registration and subscription, the newest.
//   - An outage of meta freezes nothing: the last table and member list are used
//     for as long as it takes. /readyz then says `stale`.
//
// # What is not
//
//   - That a session remembers: all of it is memory. A restarted session is
//     another owner (its incarnation differs) and starts empty; its clients have
//     long been elsewhere.
//   - That a client's death is noticed at once. A closed socket may be a network;
//     only a good-bye and a withdrawal are at once.
//   - That every version is pushed.
//   - That a list is complete in a moment when a whole session died together
//     with its clients: theirs is seen for the session grace longer.
//
// # What happens when a part dies
//
//   - A client: its registrations go after the client lease. If a third of all
//     do within a grace, data marks the removals unconfirmed, and pushes that
//     would empty or halve a list are held.
//   - This session, killed: data keeps its copies for the session grace; its
//     clients replay at others within milliseconds.
//   - This session, frozen, or cut off from everybody: as killed, for the others.
//     When it is back its clients' leases start again, since no client could renew
//     one, and it holds back what they registered, until they speak;
//     a slot that has lost all of its copies waits for that, for two client leases
//     at most.
//   - All other sessions, while this one should drain: it serves as the last one,
//     and is in the clients' lists, until another takes clients (docs/adr/0027). A
//     stop waits so until its deadline, and then ends with an error.
//   - This session, stopped: off the clients' lists, clients moved, off the
//     member list, then the port. Nobody notices.
//   - A data node: its slots go to others at new epochs. What was not stored is
//     written there, what was is in the diff; subscribers keep what they have
//     until the new leader serves.
//   - All data nodes: the sets fill the next ones.
//   - All sessions: the data nodes keep everything until a session grace after the
//     first one is back. If the data nodes were lost with them, a session in its
//     first grace holds first pushes that are shorter than what the client holds.
//   - Meta, the database: nothing here, but that nothing moves.
package session
