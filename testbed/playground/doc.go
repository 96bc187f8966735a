// Package playground runs a cluster whose time a viewer moves: the whole simulated cluster
// with its database, its clients, its checkers and the console's live source, in one bubble
// of testing/synctest. It is a source of the console, so that every action of the page,
// scenarios and storms among them, works as on a cluster of processes.
//
// Virtual time stands still while a goroutine of the bubble waits for a channel from
// outside. [World] moves it in quanta: slower than real, real, as fast as it can, or to the
// next message, election or violation. What is asked for is done between two quanta and
// noted with its time. So a [Start], the seed with what was done, is a text of a line that
// an address can carry, and leads somebody else to the same moment.
//
// # Not yet
//
// The playground's page (package page) shows recordings only: there is no program yet that
// runs a World in a browser.
//
// # Files, in reading order
//
// A file uses what later files declare.
//
//   - run.go: the bubble with the cluster.
//   - pace.go: how time is moved.
//   - world.go: what is done in the bubble, and what is seen of it.
//   - start.go: what determines a run.
package playground
