// Package live shows a running cluster on the console's page, and acts on it.
//
// One observer asks the nodes a few times a second, whatever the number of
// viewers; the nodes' own events, which it follows, make it look at once. If the
// nodes write trace files, it reads them as they grow, and frees what it has read.
//
// # The promises
//
// Clients of its own publish and subscribe, and what they do and see is recorded
// in a check.History, with the nodes' trace events, the faults that were injected
// here, and what is observed from outside. The checkers are those of package check.
// A history grows and each check reads all of it, so checks are spaced: the next one
// begins after twenty times the time that the last one took, which bounds their cost
// to a twentieth of a processor. After maxEntries, when the cluster is quiet, the clients
// are replaced and another history begins: of the time before, it has only the faults
// (check.Recorder.Resume). What was checked is added up.
//
// # What is not guaranteed
//
//   - What happened between the last check and now is not checked yet; the page
//     shows until when.
//   - Faults that were injected by others (conclave kill, a signal) are not in the
//     history, so a promise that depends on them may be reported as broken.
//   - Without trace files the checkers see only the clients and what is observed. The
//     verdict of a scenario has the nodes' events only with Config.Aside, and leaves
//     most of the lock row to the checks of the console's own history.
//
// # Files, in reading order
//
// A file uses what later files declare.
//
//   - source.go: the observer's loop, and the state that it shows.
//   - act.go: what a viewer can do, and how it is done and taken back.
//   - play.go: scenarios and storms.
//   - outcome.go: what came of an action.
//   - core.go: the source and its configuration.
//   - shown.go: what a look means for the page and for the checkers.
//   - record.go: the histories, their clients, and the checks.
//   - scoped.go: clients with names of their own.
//   - meter.go: rates and latencies.
//   - tail.go: trace files that grow.
//   - services.go: lists of services, publishers and subscribers.
//   - look.go: one look at the cluster, and which processes it has.
//   - punch_linux.go: frees what was read of a file.
//   - punch_other.go: the same where the kernel cannot.
package live
