// Package playground runs the simulated cluster behind the console's page, so that a
// reader can break it without a server: in a browser, as WebAssembly (package living), or
// in a test.
//
//	page  --act, pace-->  World  --jobs-->  bubble: simulated.Cluster, live.Source, clients
//	page  <--changes----  Hub    <--Show--
//
// A goroutine of the bubble waits for jobs at a channel that was made outside, so that
// virtual time is stopped. A job sleeps, and time moves on. The console's source runs in
// the bubble too, over the network of the simulator; the checkers run outside.
//
// # One start, one state
//
// A [Start] is a seed and the acts with their virtual times. Its text is a part of the
// page's address. If the runtime's choices are seeded (package simulated), a second run of
// it sends the same bytes at the same times, whatever the speed, pauses and questions of
// its viewer: acts are done between two quanta of 100 µs, when every goroutine of the
// bubble waits.
//
// # Limits
//
// The history that is checked is bounded: when it is long, another one begins, and the page
// shows that. A check takes no virtual time.
//
// # Files, in reading order
//
// A file uses what later files declare.
//
//   - drive.go: time is moved.
//   - why.go: what led to an election or a violation.
//   - world.go: the cluster in its bubble; speed, pause and steps.
//   - start.go: what determines a run.
package playground
