// Package slot decides which data node keeps which part of the data, and how a
// part gets from one node to another without a moment in which nobody has it. It
// is pure: no I/O, no goroutine, no clock. Everything here is a function from
// what is known to what should be written next; the meta leader persists the
// result under its term before anyone acts on it.
//
// # From a key to a node
//
// Data is cut into slots, a power of two of them (256 by default). Of gives the
// slot of a key: the CRC-32C of its UTF-8 bytes as a signed number, its absolute
// value, masked; byte for byte what the original computes. A Table says of each
// slot who leads it, since which epoch, and who has copies. Everybody who writes,
// reads or follows finds the node there, and every node finds its work there.
//
//	"com.example.Echo#@#DEFAULT_INSTANCE_ID#@#DEFAULT_GROUP"
//	   -- Of --> slot 76 -- Table --> leader data-2@7f.., followers [data-3@a1..]
//
// # Epochs and incarnations
//
// A table is known by its epoch, the term of the leader that wrote it and a
// sequence in that term. Each slot has a leader epoch too: the epoch of the table
// that made its leader one. It changes exactly when the leader does, so it names
// one leadership: positions in its feed, acknowledgements, reports and diffs all
// say which leader epoch they are about, and those of another count for nothing.
// A leader is a name with an incarnation. A node that restarted has forgotten
// everything; in the table it is another node, and gets its own slots back only
// as a new leadership. (In the original a node is its IP: one that is killed and
// restarted faster than its lease leads on at its old epoch, with an empty memory.)
//
// # The phases of a slot
//
//	                    successor lost or forbidden
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
// In stable and preparing the leader serves. In switching it is the successor
// that leads: it already takes writes, and asks the source, the old leader, to
// finish; the source answers with its last position, the new leader applies what
// is up to it, and serves: one round trip in which nobody answers reads. In crash
// there is no one to ask: the leader compares with every session that must be
// heard, and then serves.
//
// # What happens when each part dies
//
//	phase      who dies            what the next write does
//	stable     the leader          crash, at a new leader epoch. It goes to a complete
//	                               copy of the newest leader epoch: an allowed node's
//	                               if there is one, else a forbidden node's, which
//	                               serves and is drained at once. Without a complete
//	                               copy it waits for holders that have not reported
//	                               to this meta leader yet, and goes to an allowed
//	                               follower that loads, or to the node that leads least
//	stable     a follower          it leaves the row, another is added; a restarted
//	                               one keeps its place as its new incarnation. While
//	                               the leader is dead too and has no heir, it stays
//	preparing  the successor       back to stable. Also when it was forbidden; then
//	                               it keeps, as follower, a complete copy
//	preparing  the leader          crash: the successor is a copy, and if it has
//	                               caught up the best one
//	switching  the new leader      crash: the source still has its copy, and so do
//	                               the followers
//	switching  the source          nothing: it stays in the row, so the new leader
//	                               asks it, is refused or hears nothing, and compares
//	                               with the sessions instead
//	crash      the leader          crash again, at another leader epoch
//	any        all data nodes      nothing: the row remembers who had what, until
//	                               a node is back to be granted it
//	any        the meta leader     nothing is lost: phases are in the table, reports
//	                               come again with every beat, so the next leader
//	                               takes the next step
//
// # Arrange
//
// Arrange makes the next table from the present one, from who is alive, who is
// forbidden, and what nodes report. In one write it takes at most one change of
// leader per slot, of as many slots as there are:
//
//  1. bury: what the dead had is granted to others, at once and without limit
//  2. hear: successors that have caught up lead, leaders that serve are stable
//  3. drain: slots led by forbidden nodes get successors, up to Limits.Drains under way
//  4. replicate: missing followers are added, those that are not needed leave
//  5. balance, when every slot is stable: up to Limits.LeaderMoves hand-overs;
//     when leaders are even, up to Limits.FollowerMoves followers
//
// Steps 3 to 5 are what protection, a frozen table, forbids: then a slot only
// goes to the newer incarnation of its own node, what is switching arrives, and
// what is preparing waits.
//
// Balance goes on until no node leads two slots more than another. The original
// stops between its water marks, 1.1 and 0.9 of the average; Limits.Slack does
// that, and OriginalLimits has its numbers. A hand-over for balance goes through
// the same phases as a drain, and so costs no more than its round trip.
//
// # Copies
//
// A slot should have Replicas copies, its leader's included. No drain and no
// balancing takes a copy away before another is complete: a forbidden follower
// stays until enough allowed ones have caught up; a leader that handed its slot
// over, also a forbidden one, stays as follower until enough others have a
// complete copy; a follower that is moved
// is marked as Leaving and goes when the one that stands in for it has caught up.
// So a node is Drained a little after it has stopped to lead. With too few nodes
// left to stand in, its copies stay until it stops, and it may, as long as the
// slots' leaders are alive and serve: CanDrain asks only for a node that can lead.
//
// So a forbidden node may still have the only complete copy of a slot: the others
// load theirs, and the leader dies. The slot is granted to it then, since a node
// without a copy would show again what was withdrawn, and miss what only this
// copy has (docs/adr/0025). It leads until it serves; the same write that makes
// the slot stable prepares a successor, within Limits.Drains.
//
// # Versions
//
// With each new leader epoch a slot gets a version base: the next multiple of
// conclave.VersionBase (2^22) above its last base and above every counter that
// any node reported. The new leader counts on from there, so what it gives out is
// newer than all that an older leader may still have given out unheard. Reported
// counters above 2^52 are not believed, for versions have to stay below 2^53.
//
// # How tables travel
//
// Full at first, then what changed: Diff makes a Delta against a base epoch. Who
// receives a table (wire.View) refuses a delta made against another one and asks
// for the whole, and checks Validate before it acts on it. Apply and Monotone say
// the same rules of two tables; the tests hold Diff and Arrange to them.
//
// # Guarantees
//
// Of every table that Arrange makes, checked by the property tests under any
// order of deaths, restarts, drains, freezes, lost and late reports and new meta
// leaders:
//   - A slot that once had a leader has one; it never stands twice in its row.
//   - Epochs only rise, leader epochs with the leader, version bases with them.
//   - No slot, succession or copy is given to a dead node, and none to a forbidden
//     one, but for the slot of a dead leader of which no allowed node has a complete
//     copy of the newest leader epoch.
//   - The slot of a dead leader goes to a complete copy of the newest leader epoch
//     that a live holder has reported, if there is one.
//   - A living leader loses its slot only to a successor that has caught up, and
//     the source stays until the new leader has said that it serves.
//   - Once reports flow and some node is allowed: every slot becomes stable,
//     leaders even, copies complete, and forbidden nodes drained; then it rests.
//
// # Not guaranteed
//
// Arrange believes what is reported: a node that says it has caught up, and has
// not, leads with less. It knows no time: a successor that lives but never
// catches up holds its slot in preparing (which is served) for ever, and balance
// with it; someone with a clock must take its lease. It does not know whether a
// drain leaves enough memory on the others. And it does not stop two leaders from
// arranging at once: that is what writing under the term is for.
package slot
