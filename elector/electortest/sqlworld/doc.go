// Package sqlworld is where the tests of strategies over MySQL play: a database, a way
// to it, and the suite of electortest with both.
//
// A [World] is in memory, on the embedded server and inside a synctest bubble
// ([InBubble]), or on a real socket ([New]). A [Suite] says what differs from one
// strategy to the next: its tables, how one is made, and how a statement is joined
// with its row.
package sqlworld
