// Package soak runs a cluster for a long time, breaks it without pause, and checks
// from outside that it kept what ARCHITECTURE.md promises.
//
// It is a black box test. It knows what its own clients published and which of it
// was acknowledged, what its own subscribers received, and what the HTTP API
// answers; the only Conclave package that it drives is the SDK (package client).
// It reads no trace events and imports no server package, so a defect that hides
// from the checkers of package chaos because both share an assumption with the
// code has no such place to hide here.
//
//	seed --NewPlan--> Episode, Episode, ...        (plan.go, episodes.go)
//	                     |  steps at offsets
//	                     v
//	                  Runner ---> Cluster: kill, pause, cut ... (processes, containers)
//	                     |  \---> operator: drain, resign, switches, by HTTP
//	                     |
//	   load: publishers, visitors, readers --- what was done ---> Oracle
//	         subscribers ------------------- what was seen ---->    |
//	                                                             checks, violations
//
// # Episodes
//
// An episode is a few faults and operator acts that overlap. The runner plays its
// steps at their offsets, then heals everything, and then demands progress within
// the bounds of bounds.go: a leader, every slot served, every node ready, a new
// registration stored and read, and every subscriber showing exactly what is
// published. The load goes on until the cluster has healed and pauses only for
// that comparison.
//
// The same seed gives the same episodes with the same offsets. What comes of them
// depends on the machine's scheduling, so a violation may need several runs of its
// seed to appear again.
//
// # What is checked
//
// Every checker counts its checks; a checker without any has shown nothing. See
// checkNames in oracle.go for the list. Safety is decided by the order of events as
// the driver saw them: an end is noted before it is requested, an acknowledgement
// after it was received. Only where the cluster promises nothing but "soon" is
// there a bound on time, a named constant with its reason, and generous, so that a
// slow machine is not accused.
//
// # What is not checked
//
//   - Losses that ARCHITECTURE.md lists as not guaranteed. No episode loses a
//     session and the leader of a slot together while that slot's follower is
//     frozen or cut off, and none cuts the clients off from every session. After a
//     loss of all data nodes and all sessions, the lists of subscribers that held
//     nothing before it need not be complete for a grace (Oracle.Lost).
//   - Latency. package bench measures it.
package soak
