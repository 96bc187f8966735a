// Package recorded plays a recording in the console: it shows the state at a
// position, goes on in time, and steps to the next or the previous message, event,
// fault, election or violation.
//
//	journal.Recording, until a position ─▶ scene: what its records have left ─▶ view: console.State
//
// A [Player] is a console.Source. Its position is a number of
// records: those before it have happened. All viewers see the same position, and
// everyone who may watch may change it, because that changes nothing but what is
// shown.
//
// # Files, in reading order
//
// A file uses what later files declare.
//
//   - player.go: the position, and how it changes.
//   - view.go: the state at a position, and which entries are shown as events.
//   - scene.go: what the records before a position have left.
package recorded
