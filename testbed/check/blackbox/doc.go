// Package blackbox checks a cluster by what its clients do and see, and by nothing
// else. It knows what was published through its clients and which of it was
// acknowledged, what its subscribers received, and which leaders the metas name. It
// reads no trace events and shares no code with the servers or with package check, so
// it also finds defects that these have in common.
//
//	any load --- Publish, Update, Withdraw, Stored, Subscribe, Close ---> Client ---> SDK
//	                                                                        |
//	  metas --- leader, history of elections --- Led, Elected ---> Oracle <-+
//	                                                                 |
//	                                                        checks, violations
//
// A value is named ID#N: it is the N-th value of the registration ID, which occurs
// once. So a list shows by itself what it lacks and what is stale in it.
//
// # What is checked
//
// Each [Check] counts its checks; one without any has shown nothing. Safety is
// decided by the order of events at the client: a withdrawal is recorded before it is
// requested, an acknowledgement after it was received. [Bounds] are used only where
// the cluster promises no more than that something happens soon.
//
// # What is not checked
//
// Losses that ARCHITECTURE.md lists as not guaranteed must not occur in the run, with
// one exception: after a loss of all data nodes and all sessions (Oracle.Lost), the
// lists of subscribers that had none before it may be incomplete for a time.
//
// # Files, in reading order
//
// A file uses what later files declare.
//
//   - client.go: a client whose calls and pushes the oracle sees.
//   - pushes.go: the checks of pushes.
//   - oracle.go: what clients have done and seen, and which terms were named.
//   - findings.go: what was checked, what was violated, and what happened before it.
package blackbox
