// Package list is how the content of a datum travels from a data node to the
// sessions, and from a session to its clients.
//
// A List is sent as a whole, as the changes of an earlier one that the receiver
// has (DeltaTo), or in parts if it is larger than a message should be (Part). These
// are only ways to send: the receiver has nothing of a list until its Assembly
// returns the whole of it, and that has the hashes that the sender named.
//
// # Files, in reading order
//
//   - assembly.go: a receiver makes a list of messages.
//   - delta.go: a list as the changes of another one.
//   - list.go: a list, a part of it, and the hashes by which two sides compare.
package list
