// Package soak runs a cluster for a long time under continuous faults, and
// checks from outside that it keeps what ARCHITECTURE.md promises.
//
// It is a black box test. It knows what its own clients published and which of
// it was acknowledged, what its own subscribers received, and what the HTTP API
// answers. It reads no trace events and uses no checker, so it also finds defects
// that package check misses because it shares an assumption with the code.
//
//	seed --scenario.Storms--> Scenario, Scenario, ...
//	                              |
//	                              v
//	                        scenario.Play ---> testbed.RealCluster (local, containers)
//
//	load: publishers, visitors, readers --- what was done ---> Oracle
//	      subscribers ------------------- what was pushed -->    |
//	                                                          checks, violations
//
// # Episodes
//
// An episode is a lossless storm (scenario.Storms): a few faults and operator
// commands that overlap, all of which the player ends. Then the runner expects
// progress within the bounds of bounds.go: a leader, every slot served,
// every node ready, a new registration stored and read, and every subscriber
// showing exactly what is published. The load continues until the cluster has
// healed and pauses only for that comparison.
//
// The same seed gives the same episodes with the same offsets. Their outcome
// depends on the machine's scheduling, so a violation may need several runs of
// its seed to appear again.
//
// # What is checked
//
// Every checker counts its checks; a checker without any has shown nothing. See
// checkNames in oracle.go for the list. Safety is decided by the order of
// events as the runner saw them: a withdrawal is recorded before it is
// requested, an acknowledgement after it was received. Bounds on time are used
// only where the cluster promises no more than that something happens soon.
// Each is a named constant with its reason, and generous, so that a slow
// machine does not fail.
//
// # What is not checked
//
//   - Losses that ARCHITECTURE.md lists as not guaranteed. No episode loses a
//     session and the leader of a slot together while that slot's follower is
//     paused or cut off, and none cuts the clients off from every session. After a
//     loss of all data nodes and all sessions, the lists of subscribers that had
//     none before it need not be complete for a grace (Oracle.Lost).
//   - Latency. Package bench measures it.
//
// # Files, in reading order
//
// A file uses what later files declare.
//
//   - run.go: a run: episodes until its time has passed.
//   - play.go: one storm is played.
//   - rest.go: what must hold between two episodes.
//   - check_terms.go: the checks of terms and slots.
//   - logs.go: the processes' logs are read.
//   - states.go: which nodes should run, and which do.
//   - memory.go: the memory of each process.
//   - runner.go: what the parts of a run share.
//   - publishers.go: what publishers do.
//   - readers.go: what subscribers and readers do.
//   - load.go: the clients of a run.
//   - gate.go: clients rest while nothing may change.
//   - check_pushes.go: the checks of pushes.
//   - report.go: the result of a run.
//   - oracle.go: what must be true, and what was found.
//   - bounds.go: how long each thing may take.
package soak
