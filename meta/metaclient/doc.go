// Package metaclient is a node's connection to the meta leader.
//
// Every session and data node, and every meta that does not lead, holds one
// stream to the leader (MetaService.Join). The node sends beats, which renew its
// lease; the leader sends its own beats and the changes of the cluster's state.
// The first beat registers the node. There is no second channel: a node that
// holds the stream is alive, and what it has read from the stream is current.
//
//	      +------- Announce, or a refusal that names the leader ---------+
//	      v                                                              |
//	+-----------+   an address   +-----------+   first beat      +-----------+
//	|  seeking  | -------------> |  joining  | ----------------> |  holding  |
//	+-----------+                +-----------+   of the leader   +-----------+
//	      ^                            | refused, silent               |
//	      +----------------------------+-------------------------------+
//	                                     broken, two beats missed
//
// A seeking client asks all metas at once (GetLeader). When the first one answers
// that it leads, the others have 10 ms more, and the highest term wins; if none
// leads, the leader named under the highest term is tried. A new leader does not
// wait to be found: it announces itself to every stored member, and an
// announcement of a higher term ends whatever the client is waiting for. So a
// node follows a new leader one round trip after the announcement.
//
// # What is guaranteed
//
//   - The node accepts nothing of a term lower than the highest that it has ever
//     seen (wire.Fence), and nothing of a lower epoch than it holds (wire.View).
//   - Registered reports that a member list with this incarnation was written to
//     the database, not only that the leader answered.
//   - Poke sends a beat at once, or 5 ms after the report that the last Poke
//     caused. PokeSoon does so 20 ms later. They never block, and several pokes
//     may result in one beat.
//   - Each table that arrives is acknowledged at once, by a beat without a report.
//   - A beat waits for an eighth of Beat at most for what it reports (reporter). A
//     node that has made no report for a node lease sends none.
//   - Drain, Restore and Leave may be repeated, and are, until they are answered
//     or their context ends.
//
// # What is not guaranteed
//
//   - The leader that this client follows is the leader now. Therefore every
//     effect of a leader is a row under its term before it is a message.
//   - There is a leader. LostFor returns how long there has been no contact; what
//     a node does then is its own decision (data nodes stop removing the
//     publishers of lost sessions, all nodes continue with the last table).
//
// # When a part fails
//
//   - The leader is killed: the stream breaks at once, and the client follows the
//     announcement of the next one.
//   - The leader is stopped or cut off: after two missed beats the client seeks.
//   - All metas fail: the client keeps seeking, with a backoff of up to 250 ms.
//   - Report does not return, because a part of this node holds its lock for ever:
//     after one node lease the beats end, and after another one the leader has
//     removed the node from the list. It registers again when Report has returned.
//   - This node is stopped for longer than its lease: it was removed from the
//     list and registers again. If another process took its name meanwhile, Run
//     returns the conflict and the process should end.
package metaclient
