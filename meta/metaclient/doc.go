// Package metaclient is a node's side of its conversation with the meta leader.
//
// Every session and data node, and every meta that does not lead, holds one
// stream to the leader (MetaService.Join): beats go up and renew the node's
// lease, beats and changes of the cluster's state come down. The first beat
// registers the node. There is no second channel: a node that holds the stream
// is alive, and whoever reads the stream is up to date.
//
//	      +--------- Announce, or a refusal that names the leader ---------+
//	      v                                                                |
//	+-----------+   an address   +-----------+   first beat    +-----------+
//	|  seeking  | -------------> |  joining  | --------------> |  holding  |
//	+-----------+                +-----------+   comes down    +-----------+
//	      ^                            | refused, silent             |
//	      +----------------------------+-----------------------------+
//	                                     broken, two beats missed
//
// Seeking asks all metas at once (GetLeader). Once one says that it leads itself
// the others have 10 ms more, and the highest term wins; if nobody leads, whom
// the highest term names is tried. A new leader does not wait to be found: it announces itself
// to every stored member, and an announcement of a higher term ends whatever
// this client is waiting for. So a node follows a new leader one round trip
// after its first word.
//
// # What is guaranteed
//
//   - Nothing of a term lower than the highest that the node has ever seen is
//     taken (wire.Fence), and nothing of a lower epoch than is held (wire.View).
//   - Registered says that the member list which names this very incarnation was
//     written to the database, not only that the leader answered.
//   - Poke sends a beat at once; it never blocks, and pokes that come together
//     make one beat.
//   - Drain, Restore and Leave may be repeated, and are, until they are answered
//     or their context ends.
//
// # What is not
//
//   - That the leader heard of is the leader now. That is why every effect of a
//     leader is a row under its term before it is a message.
//   - That there is a leader. LostFor tells how long none was heard; what a node
//     does then is its own decision (data nodes stop removing lost sessions'
//     publishers, everybody goes on with the last table).
//
// # When a part dies
//
//   - The leader is killed: the stream breaks at once, the announcement of the
//     next one is followed.
//   - The leader is frozen, or cut off: two missed beats, then seeking.
//   - All metas: seeking goes on, ever more slowly, down to four times a second.
//   - This node is frozen for longer than its lease: it was taken off the list.
//     It registers again; when another process took its name meanwhile, Run
//     returns the conflict and the process should end.
package metaclient
