// Command mutate removes the guards of the cluster's code, one at a time, and
// runs the simulator on what remains. If no scenario or storm fails without a
// guard, the guard is either not needed or not tested. For each guard it prints
// the scenario or the storm that fails, with its seed, and the checker; guards
// that cover each other are removed together.
//
//	go run ./testbed/simulated/mutate [-only WORDS] [-search | -storms] [-seeds N] [-markdown]
//	go run ./testbed/simulated/mutate -only WORDS -overlay FOLDER
//
// Each guard lists the plays that are known to fail without it. They are tried
// first, and without -search no others are. With -storms only storms are
// played, in two processes, and the first one that fails is reported: this
// shows within how many storms the missing guard is found without a scenario
// made for it. No file is changed: the go command compiles with an overlay. With
// -overlay it only writes the overlay, with which programs without the guard can be
// built: go build -overlay FOLDER/overlay.json ./cmd/meta
package main
