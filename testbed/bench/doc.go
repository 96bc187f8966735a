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
// # Growth
//
// The measurements with sizes show how rates, latencies and memory change with a
// size, and what an overload does: on a new cluster for each size, with clients of a
// load.Pool. One that fails or exceeds its time limit is reported with what was
// measured before, and the next one begins. The overload is an open loop: an update is
// sent when it is due, whether or not earlier ones have been answered, and its latency
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
//   - calm.go: an idle cluster.
//   - nodes.go: data and session nodes that are killed, drained, started.
//   - leader.go: leaders that are killed or stopped.
//   - load.go: latency, load, and the cost of TLS.
//   - growth.go: the measurements with sizes.
//   - beside.go: other registries, in turns with the cluster.
//   - run.go: the configuration, and one benchmark in progress.
//   - cluster.go: what is done to a cluster and read from it.
//   - original.go: the figures of the original.
//   - report.go: figures and their targets.
package bench
