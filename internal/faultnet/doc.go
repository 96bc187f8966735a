// Package faultnet is a network with faults for processes of one machine. It
// puts a TCP proxy on loopback in front of each host. The proxies can hold
// back, delay, break and lose what one named host sends to another.
//
//	meta-1 --dial from 127.87.3.1--> [proxy of data-1] ----> data-1
//	                                  link meta-1 > data-1
//	                                  link data-1 > meta-1
//
// The address of a host's proxy is given to the other hosts as the host's own
// address. Each host dials from its own loopback address, by which a proxy
// recognises the caller. Connections of other callers (the operator's tool, a
// browser) are passed on without faults.
//
// # What is as in a real network
//
//   - Bytes that a cut holds back arrive after it is mended, as TCP would send them
//     again; so does the end of a connection.
//   - A connection that ends with a reset on one side ends with a reset on the other.
//   - A host without a listener refuses dials: each proxy keeps one idle connection to
//     its host, and stops listening while the host refuses.
//
// # What is not
//
//   - A dial across a cut is accepted and then receives nothing: bytes are held back,
//     but not the kernel's handshake.
//   - A host that was killed does not refuse at once: for a moment a dial is accepted
//     and then reset.
//   - No single packets are lost; TCP would repair that anyway.
package faultnet
