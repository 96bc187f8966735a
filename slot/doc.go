// Package slot assigns the data to data nodes: which node leads each slot,
// which nodes follow it, and how a slot moves from one node to another while it
// is served. The package is pure: no I/O, no goroutines, no clock. Its
// functions compute the next slot table from what is known now; the meta leader
// stores the result under its term before any node acts on it.
//
// # From a key to a node
//
// The data is divided into slots; their number is a power of two (256 by
// default). Of returns the slot of a key: the CRC-32C of its UTF-8 bytes as a
// signed number, its absolute value, masked. This is byte for byte what the
// original computes. A Table names for each slot the leader, the leader epoch
// and the nodes with copies. Sessions find the node of a slot in the table, and
// each data node finds its own work there.
//
//	"com.example.Echo#@#DEFAULT_INSTANCE_ID#@#DEFAULT_GROUP"
//	   -- Of --> slot 76 -- Table --> leader data-2@7f.., followers [data-3@a1..]
//
// # Epochs and incarnations
//
// A table is identified by its epoch: the term of the meta leader that wrote it
// and a sequence number in that term. Each slot has a leader epoch too, the
// epoch of the table that granted the slot to its leader. It is new with each
// grant, so it identifies one leadership. Positions in the feed,
// acknowledgements, reports and diffs carry the leader epoch that they refer
// to, and are ignored under any other.
//
// The leader of a slot is a name with an incarnation. A restarted node has lost
// its memory; in the table it is a different node, and it gets its own slots
// back only as a new leadership. (In the original a node is its IP address: a node that is
// killed and restarted within its lease continues to lead at its old epoch,
// with an empty memory.)
//
// # The phases of a slot
//
//	             successor lost, unheard or forbidden
//	                   +---------------------------+
//	                   v                           |
//	+------------> stable -- drain, balance --> preparing
//	|                |                             |
//	|                | leader lost                 | successor has caught up
//	|                v                             v     new leader epoch
//	+-- serves -- crash <---- leader lost ---- switching
//	|             |   ^                            |
//	|             +---+ leader lost                |
//	+------------------------- serves -------------+
//
// In stable and preparing the leader serves. In switching the successor already
// leads: it accepts writes and asks the source, the old leader, to finish. The
// source answers with its last position; the new leader applies the feed up to
// that position and then serves. For this one round trip the slot cannot be
// read. In crash the old leader of the slot is dead or unheard. The new one takes the
// furthest copy of the other live holders, compares it with every session that
// has to answer, and then serves (docs/adr/0064).
//
// # What happens when each part dies
//
//	phase      who dies            what the next write does
//	stable     the leader          crash, at a new leader epoch. The slot goes to the
//	                               node that replacement chooses: a complete copy of
//	                               the newest leader epoch, if there is one
//	stable     its sessions' links crash, at a new leader epoch, to an allowed node with
//	           to the leader       a complete copy, and the leader follows
//	                               (Input.Unheard). If there is none, a successor is
//	                               prepared as in a drain. Balancing gives the node
//	                               slots again when it is heard
//	stable     a follower          it leaves the row and another is added; a restarted
//	                               follower keeps its place as its new incarnation.
//	                               While the leader is dead too and has no replacement,
//	                               the follower stays in the row
//	preparing  the successor       back to stable. Also if it was forbidden; if its
//	                               copy is complete, it stays as a follower
//	preparing  the leader          crash: the successor is one of the copies
//	switching  the new leader      crash: the source and the followers still have
//	                               their copies
//	switching  the source          no change: it stays in the row, and the new leader
//	                               continues as after a crash (package data)
//	crash      the leader          crash again, at another leader epoch
//	any        all data nodes      no change: the row records which node had what, until
//	                               a node returns and can be granted the slot
//	any        the meta leader     nothing is lost: the phases are in the table, and
//	                               each heartbeat repeats the reports, so the next
//	                               meta leader takes the next step
//
// # Arrange
//
// Arrange computes the next table from the present one, the live nodes, the
// forbidden nodes, and the nodes' reports, in the steps of its comment. In one
// write it changes the leader of a slot at most once, for any number of slots: a
// drain starts hand-overs while fewer than Limits.Drains are in progress, and
// balancing, if every slot is stable and every node heard, Limits.LeaderMoves
// hand-overs or, if the leaders are even, Limits.FollowerMoves followers.
//
// Protection (a frozen table) forbids to drain, to replicate and to balance, and no
// slot leaves the nodes of its row (docs/adr/0025). The slot of a missing leader
// waits for its node. If the node is back as a newer incarnation, the slot goes to a
// complete copy in the row, and the node follows; if no copy is complete, the newer
// incarnation leads. Switching slots may become stable, and preparing slots wait.
//
// Balancing continues until no node leads two slots more than another. The
// original stops between its water marks, 1.1 and 0.9 of the average;
// Limits.Slack does the same, and OriginalLimits has its numbers. A hand-over
// for balance goes through the same phases as a drain and costs the same round
// trip.
//
// # Copies
//
// A slot should have Replicas copies, its leader's included. Drains and
// balancing never remove a copy before another is complete:
//   - A forbidden follower stays until enough allowed followers have caught up.
//   - A leader that handed its slot over, forbidden or not, stays as a follower
//     until enough others have a complete copy.
//   - A follower that is moved is marked as Leaving, and leaves when the node
//     in its place has caught up.
//
// So a node is Drained a little later than it stops leading. If too few other
// nodes are left, a draining node keeps its copies until it stops; it may stop
// as long as the leaders of these slots are alive and serve. CanDrain therefore
// only requires another node that can lead.
//
// A forbidden node may still have the only complete copy of a slot: the leader
// dies while the other followers are loading. Then the slot is granted to the
// forbidden node, since a node without a complete copy would show withdrawn
// registrations again and miss those that only this copy has (docs/adr/0025).
//
// # Versions
//
// With each new leader epoch a slot gets a version base: the next multiple of
// conclave.VersionBase (2^22) above its last base and above every counter that
// a node has reported. The new leader counts from there, so its versions are
// newer than any that an older leader may still have issued without reporting
// them. Reported counters above 2^52 are ignored, because versions must stay
// below 2^53.
//
// # Guarantees
//
// These hold for every table that Arrange makes. The property tests check them
// under any order of deaths, restarts, drains, freezes, lost and late reports
// and new meta leaders:
//   - A slot that once had a leader has one, and no name occurs twice in its
//     row.
//   - Epochs only rise, leader epochs rise with each new leader, and version
//     bases with them.
//   - No slot, succession or copy is given to a dead node. None is given to a
//     forbidden node, except the slot of a dead leader of which no allowed node
//     has a complete copy of the newest leader epoch.
//   - The slot of a dead leader goes to a complete copy of the newest leader
//     epoch that a live holder has reported, if there is one. In a frozen table
//     it waits until the leader's node is back. Without such a copy it goes to an
//     unheard node only if every allowed node is unheard.
//   - A live leader that is heard loses its slot only to a successor that has
//     caught up, and the source stays in the row until the new leader has
//     reported that it serves.
//   - Once reports arrive and some node is allowed, every slot becomes stable,
//     leaders become even, copies complete and forbidden nodes drained; after
//     that nothing changes.
//
// # Not guaranteed
//
// Arrange trusts the reports: a node that wrongly reports that it has caught up
// leads with incomplete data. Arrange has no clock: a successor that is alive
// but never catches up keeps its slot in preparing (which is served) forever,
// and prevents balancing; a caller with a clock must end its lease. Arrange
// does not check whether the other nodes have enough memory for a drain. It
// does not prevent two leaders from arranging at once; writing under the term
// does.
package slot
