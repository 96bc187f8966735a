// Build makes the playground: a folder of static files that any host can serve. It is run in
// the root of the project:
//
//	go run ./testbed/playground/build -o DIR
//
// Two builds of one commit with one version of Go are equal in every byte. No code that a
// statement of Conclave needs is changed in a module that is trimmed.
//
// # Files, in reading order
//
//   - main.go: the folder and its parts.
//   - recordings.go: scenarios are played by the simulator, and recorded.
//   - trim.go: modules that the programs need are copied, and changed.
//   - changes.go: what is changed in them, and why.
//   - program.go: the player and the cluster are compiled for the browser.
package main
