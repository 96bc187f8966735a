// Package soak runs a cluster for a long time under load and continuous faults, and
// checks from outside that it keeps what ARCHITECTURE.md promises.
//
//	seed --scenario.Storms--> Scenario, Scenario, ... --scenario.Play--> testbed.RealCluster
//	                                                                            |
//	scenario.Traffic --- clients ---> blackbox.Oracle <--- leaders, processes --+
//
// It is a black box test. It knows what its own clients have published and seen, what
// the HTTP API answers, and how processes end. It reads no trace events and no verdict
// of a checker; package blackbox says what is checked, and checks.go the rest.
//
// An episode is a lossless storm: a few faults and operator commands that overlap, all
// of which the player ends. Then the runner expects, within the bounds of checks.go, a
// leader, every slot served, every node ready, and clients that are served; and then,
// while the clients change nothing, that everything was acknowledged, and that all lists
// show exactly what is published. Only for that the load pauses.
//
// The same seed gives the same episodes with the same offsets. Their outcome depends on
// the machine's scheduling, so a violation may need several runs of its seed to appear
// again. Latency is not checked; package bench measures it.
//
// # Files, in reading order
//
// A file uses what later files declare.
//
//   - run.go: a run: episodes until its time has passed.
//   - report.go: the result of a run.
//   - load.go: the clients of a run.
//   - storm.go: one storm is played.
//   - rest.go: what must hold between two episodes.
//   - terms.go: the metas are asked for the leader.
//   - logs.go: the processes' logs are read.
//   - runner.go: what a run is given, and what its parts share.
//   - processes.go: how processes end, and their memory.
//   - checks.go: what is checked, and how long each thing may take.
package soak
