// Package memtree is a ZooKeeper in memory, for tests: a [Server] with a tree of
// nodes, sessions that expire, ephemeral and numbered names, one-shot watches,
// versions, and transactions of checks and one write.
//
// # Two kinds of clients
//
//	Server.Connect   a [Session] in this process, by function calls. It is a zklatch.Tree,
//	                 and its faults are injected: Disconnect, Reconnect, Expire.
//	Server.Serve     ZooKeeper's own protocol over a listener, in memory or real. The
//	                 client is then the real one, and its faults are the network's.
//
// Both use the same tree, and both work inside a testing/synctest bubble: no mutex is held
// across a wait, and time is used only to end sessions.
//
// # What it does like ZooKeeper
//
//   - Each change has a number (zxid), and changes are made one after the other.
//   - A session ends when nothing was received from it for its timeout, whether it is
//     connected or not; its nodes are deleted at that moment, and watches on them fire.
//   - A session that lost its connection continues if its client reconnects in time with
//     its secret. The client sets its watches again, which report at once what has
//     happened meanwhile.
//   - The numbers of numbered nodes count all nodes ever created under their parent.
//   - A container that has had a child is deleted when it is empty; here only by
//     Server.Sweep.
//
// # What it does not have
//
// Replicas, access lists, watches on missing nodes, nodes with a time to live, and
// transactions with two writes. It answers them with an error. The tree is lost when the
// server ends.
//
// # Faults
//
//	Session.Disconnect, Reconnect     a client without a connection for a while
//	Server.LoseReply                  a request is executed, its answer is lost
//	Server.DropRequest                a request is lost
//	Server.Expire                     a session ends early
package memtree
