// Package bench measures a real cluster of processes from outside: it publishes
// and subscribes through the SDK, asks the metas over HTTP, and kills. What it
// prints stands beside a target of its own and what the Java original
// (SOFARegistry 6.6.3) did on two cores of the same kind of machine.
//
// Every latency is a distribution over n repetitions (30 by default; --full of the
// tool makes it 200), kept in an HDR histogram; a mean would hide the one second
// that matters. Times are read from one monotonic clock, this process's: a push
// is timed from just before the call that caused it to the moment at which the
// subscriber's callback runs. Where the cluster keeps the figure itself (the
// leaderless time in the election history) both are shown.
//
// The order of the measurements is part of them: first everything that needs a
// calm cluster, then the load, then what breaks something. After each breakage
// the next one waits until every process is ready and no slot is on its way, so
// that repetitions do not pay for one another.
//
// Not measured: more than one machine, a network with latency, disks (nothing
// but the database has any).
package bench
