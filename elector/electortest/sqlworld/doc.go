// Package sqlworld runs tests of strategies over MySQL: a database, a connection to it,
// and the suite of electortest with both.
//
// A [World] is in memory, on the embedded server and inside a synctest bubble
// ([InBubble]), or on a real socket ([New]). A [Suite] describes one strategy: its
// tables, how it is made, and how a statement is joined with its row.
package sqlworld
