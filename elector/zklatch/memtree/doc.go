// Package memtree is a ZooKeeper in memory, for tests: a [Server] with a tree of
// nodes, sessions that expire, ephemeral and numbered names, one-shot watches,
// versions, and transactions of checks and one write.
//
// # Two ways in
//
//	Server.Connect   a [Session] in this process: calls, no bytes. It is a zklatch.Tree,
//	                 and its faults are asked for: Disconnect, Reconnect, Expire.
//	Server.Serve     ZooKeeper's own protocol over a listener, in memory or real. The
//	                 client is then the one that is used in earnest, and its faults are
//	                 the network's.
//
// Both see one tree. Both work inside a testing/synctest bubble: nothing here holds a
// mutex across a wait, and time is only used to end sessions.
//
// # What it does as ZooKeeper does
//
//   - Each change has a number (zxid), and they are made one after the other.
//   - A session ends when nothing was heard of it for its timeout, whether it is
//     connected or not; its nodes go in that moment, and watches on them fire.
//   - A session that lost its connection takes up where it was, if it comes back in
//     time with its secret. Its watches are set again by the client, and tell at once
//     what has happened meanwhile.
//   - The numbers of numbered nodes count what was ever made under their parent.
//
// # What it does not do
//
// Replicas, access lists, watches on children or on what is not there, containers,
// transactions with two writes. It answers them with an error, and forgets everything
// when it ends.
//
// # Faults
//
//	Session.Disconnect, Reconnect     a client without a connection, for a while
//	Server.LoseReply                  a request is carried out, its answer is lost
//	Server.DropRequest                a request is lost
//	Server.Expire                     a session ends early
package memtree
