// Package memtree is a ZooKeeper in memory, for tests and for the lab: a [Server] with a
// tree of nodes, sessions that expire, ephemeral and numbered names, containers, one-shot
// watches, and versions. Its clients use ZooKeeper's own protocol over any
// listener, also inside a testing/synctest bubble: no mutex is held across a wait, and time
// is used only to end sessions.
//
// # What it does like ZooKeeper
//
//   - Each change has a number (zxid), and changes are made one after the other.
//   - A session ends when nothing was received from it for its timeout, whether it is
//     connected or not; its nodes are deleted at that moment, and watches on them fire.
//   - A session that lost its connection continues if its client reconnects in time. The
//     client sets its watches again, which report at once what has happened meanwhile.
//   - The numbers of numbered nodes count all nodes ever created under their parent.
//   - A container that has had a child is deleted when it is empty; here only by
//     Server.Sweep.
//
// # What it does not have
//
// Replicas, access lists and the secrets of sessions, watches on missing nodes, nodes with
// a time to live, and transactions. It answers them with an error. The tree is lost when
// the server ends.
package memtree
