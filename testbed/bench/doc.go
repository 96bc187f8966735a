// Package bench measures a real cluster of processes from outside: it publishes
// and subscribes through the SDK, queries the metas over HTTP, and kills
// processes. It prints each figure beside a target and what SOFARegistry 6.6.3
// (the Java original) reached on two cores of the same kind of machine.
//
// Each latency is a distribution over n repetitions (30 by default, 200 with
// the tool's --repeat) in an HDR histogram, because a mean would hide rare slow
// cases. All times are from the monotonic clock of this process: a push is
// timed from just before the call that caused it until the subscriber's
// callback runs. Where the cluster itself keeps a figure (the leaderless time
// in the election history), both are shown.
//
// The order of the measurements matters: first those that need an idle cluster,
// then the load, then the faults. After each fault the next repetition waits
// until every process is ready and no slot is being handed over, so that
// repetitions do not affect one another.
//
// # Growth curves
//
// Grow measures how rates, latencies and memory change with a size, and what an
// overload does, on a new cluster for each point. It reaches the registry only
// through a Driver, so that another registry can be measured with the same load
// in the same run:
//
//	Grow --> point (one size, one Target) --> links --> Driver: SDK, or another registry's
//	                 |
//	                 +--> watcher: memory, elections, evictions, clients gone (Conclave only)
//
// A point that fails or exceeds its time limit is recorded with what was measured
// before, and the next one begins. The overload is an open loop: an update is sent
// when it is due, whether or not earlier ones have been answered, and its latency
// counts from then. docs/performance.md explains the figures.
//
// # What is not guaranteed
//
// Not measured are more than one machine, a network with latency, and disks
// (only the database uses one).
//
// # Files, in reading order
//
// A file uses what later files declare.
//
//   - bench.go: the measurements, in their order.
//   - growth.go: the growth curves, in their order.
//   - growth_overload.go: the curve over multiples of the capacity.
//   - growth_losses.go: the curve of nodes that are killed.
//   - growth_nodes.go: the curve over data nodes.
//   - growth_providers.go: the curve over providers of one dataId.
//   - growth_connections.go: the curve over connections.
//   - growth_registrations.go: the curve over registrations.
//   - point.go: the configuration of the curves, and one point in progress.
//   - clients.go: connections from several processes.
//   - machine.go: memory and load of this machine.
//   - links.go: connections of this process, and what they publish.
//   - openloop.go: operations that are sent when they are due, and when a rate is back.
//   - watcher.go: what happens to a cluster under load.
//   - driver.go: connections to any registry; the SDK as one.
//   - curve.go: the result of the growth curves, and columns of several.
//   - nodes.go: data and session nodes that are killed, drained, started.
//   - secured.go: the cost of TLS.
//   - load.go: latency and load.
//   - leader.go: leaders that are killed or stopped.
//   - calm.go: an idle cluster.
//   - peer.go: clients that publish and subscribe.
//   - ledger.go: what subscribers must see.
//   - run.go: the configuration, and one benchmark in progress.
//   - original.go: the figures of the original.
//   - gaps.go: how long a slot that was handed over was served by no node.
//   - report.go: figures and their targets.
//   - dist.go: distributions.
package bench
