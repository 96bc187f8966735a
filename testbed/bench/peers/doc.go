// Program peers measures registries in turns, each by the client that its users have: it
// reads a bench.Comparison and writes a bench.Compared. It is a module of its own, because
// these clients have many dependencies.
package main
