// Command mutate removes the guards of the cluster's code, one at a time, and
// runs the simulator on what remains. If no scenario or storm fails without a
// guard, the guard is either not needed or not tested. For each guard it prints
// the scenario or the storm that fails, with its seed, and the checker; guards
// that cover each other are removed together.
//
//	go run ./testbed/simulated/mutate [-only WORDS]
//	go run ./testbed/simulated/mutate -only WORDS -overlay FOLDER
//
// Each guard lists the plays, or the test, that are known to fail without it. No file
// is changed: the go command compiles with an overlay. With -overlay it only writes the
// overlay, with which programs without the guard can be built: go build -overlay
// FOLDER/overlay.json ./cmd/meta
package main
