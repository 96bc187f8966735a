// Package conclave defines the types that all parts of the registry share: the
// identity of a node (NodeID, Role), what clients publish and subscribe
// (DataInfoID, Publisher, Datum), and the order of the leaders'
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
// # Where to begin
//
// ARCHITECTURE.md has three tours: the core file by file, one publish from a
// client to another client's callback, and one term from its swap to the next
// leader. Each package's doc.go then has its rules and the order of its files.
package conclave
