// Package sofa is what a session needs to serve the published clients of SOFARegistry
// (docs/sofa.md): the frames and values of their protocol, and the messages that consist of these.
//
// A frame is one of Bolt's first version, and a value is of the draft of Hessian 2 that
// SOFA's libraries have, which is not the final one. Both are read within limits: no
// length is believed before its bytes have arrived, and neither the number of values nor
// their depth is what a client chooses. What cannot be read is answered as the original
// does, and ends the connection at most.
//
// # Files, in reading order
//
//   - message.go: the messages, their fields, and the zones of values.
//   - encode.go: values as bytes.
//   - decode.go: bytes as values.
//   - frame.go: frames.
package sofa
