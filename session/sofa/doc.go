// Package sofa is what a session needs to serve the published clients of SOFARegistry
// (docs/sofa.md): the frames and values of their protocol, and a stream that translates
// between them and the messages of this cluster's own clients. So their registrations,
// subscriptions and values are those of any other client.
//
//	the client's connection                      the session
//	  frame --ReadFrame--> value --Decode--> Register
//	                                           \
//	                                            Stream.Receive --> wirev1.ClientMessage
//	                                            Stream.Send    <-- wirev1.ServerMessage
//	                                           /
//	  frame <--Append---- value <--Encode--- ReceivedData, RegisterResponse, ...
//
// A frame is one of Bolt's first version, and a value is of the draft of Hessian 2 that
// SOFA's libraries have, which is not the final one. Both are read within limits: no
// length is believed before its bytes have arrived, and neither the number of values nor
// their depth is what a client chooses. What cannot be read is answered as the original
// does, and ends the connection at most.
//
// # What differs from the original
//
//   - A client's own heartbeats come too seldom to prove that it lives, so the stream asks
//     it: by a heartbeat of Bolt, which Java's client answers, or by a push to no
//     subscriber, which is all that the one for Node answers.
//   - A value belongs to a zone, which the cluster does not know: see Value.
//   - A register that withdraws is answered once data has it, since its client forgets it
//     then.
//
// # Files, in reading order
//
//   - stream.go: one connection: what its client sends, and is sent.
//   - message.go: the messages, their fields, and the zones of values.
//   - encode.go: values as bytes.
//   - decode.go: bytes as values.
//   - frame.go: frames.
package sofa
