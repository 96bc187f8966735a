// Package outside looks at a cluster as its users do, for the drivers whose nodes
// are other processes: over HTTP and through the SDK, with limits so short that a
// node that does not answer holds up nobody.
//
// What it reports is what was answered, which may be over already: a paused leader
// still leads by the word of the others. Judges take it for that.
package outside
