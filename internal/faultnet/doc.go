// Package faultnet is a network with faults for processes of one machine: TCP
// proxies on loopback, one before each host, that can hold back, delay, break
// and lose what passes from one named host to another.
//
//	meta-1 --dial from 127.87.3.1--> [proxy of data-1] ----> data-1
//	                                  link meta-1 > data-1
//	                                  link data-1 > meta-1
//
// Everybody is told the address of a host's proxy as the host's own, and dials
// from a loopback address of its own, by which a proxy knows who is calling. A
// caller without such an address (the operator's tool, a browser) is let through
// untouched.
//
// # What is true to a real network
//
//   - Bytes that a cut holds back arrive once it is mended, as TCP sends them
//     again; so does the end of a connection.
//   - A connection that ends with a reset ends with a reset on the other side.
//   - A host on which nobody listens refuses a dial: each proxy keeps one idle
//     connection to its host, and stops listening while that host refuses.
//
// # What is not
//
//   - A dial across a cut is accepted, and then hears nothing: only its bytes
//     are held back, not the handshake of the kernel.
//   - A host that was killed refuses after a moment, not at once: within it a
//     dial is accepted and reset.
//   - Nothing is lost one packet at a time; TCP would repair that anyway.
package faultnet
