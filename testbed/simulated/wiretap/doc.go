// Package wiretap names the messages in the bytes that hosts send to each other:
// the procedure of a call and what a message of a stream has, the kind of an SQL
// statement and its result. It only listens: no byte is changed or delayed, and
// no node knows of it.
//
//	bytes of one direction ─▶ frames of HTTP/2 ─▶ headers (HPACK) ─▶ procedure
//	                                          └─▶ data ─▶ envelopes of Connect ─▶ fields of the message
//	                       ─▶ packets of MySQL ─▶ text of the statement ─▶ its file in package sql
//
// A [Tap] must get all bytes of a connection, because the headers of HTTP/2 refer
// to earlier ones. What it cannot read it names by its protocol only.
//
// # Files, in reading order
//
// A file uses what later files declare.
//
//   - tap.go: the connections, and the messages of one write.
//   - http.go: calls and streams over HTTP/2, and calls over HTTP/1.
//   - envelope.go: the messages of a stream.
//   - mysql.go: statements and their results.
//   - message.go: a message.
package wiretap
