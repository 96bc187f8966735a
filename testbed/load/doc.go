// Package load is the load on a cluster: clients that register, update and
// subscribe, and what they measure.
//
//	Pool ----> Clients ----> Publish, ServeAll, Subscribe
//	             |
//	             +--> Lanes:   updates that are sent when they are due (open loop),
//	             |             or when the last one is stored (closed loop)
//	             +--> Traffic: updates recorded in a Ledger, which checks each push
//
// A client is a [testbed.Client] that can be killed, so the same load runs on every
// cluster that has such clients. The package starts no cluster and disturbs none.
//
// # What is not guaranteed
//
// The load runs in the process that calls it. If that process gets too little of the
// processor, the latencies are its own; see [Lanes.Offer] for what counts then.
//
// # Files, in reading order
//
// A file uses what later files declare.
//
//   - openloop.go: operations that are sent when they are due, and when a rate is back.
//   - traffic.go: publishers whose updates are recorded, and what subscribers must see.
//   - pool.go: clients of one cluster, by the SDK.
//   - clients.go: clients, and what they publish and receive.
//   - dist.go: distributions.
package load
