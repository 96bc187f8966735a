// Command onetrace writes an overlay for the go command, with which one seed of
// the simulator gives one trace, event by event.
//
// In a bubble Go's runtime is deterministic except for random choices and
// preemption. The random choices are which ready case a select takes, which of
// two timers of one instant fires first, and in which order a map is iterated,
// a context's children are cancelled and a server's connections are closed.
// With the overlay a bubble makes these choices from its own random stream,
// seeded with runtime.SetBubbleSeed, and its goroutines are not preempted, nor does
// one that wakes outside come before them.
// Outside of bubbles only that and the size of a goroutine's first stack change.
// Programs that are built without the overlay are not affected.
//
//	go run ./testbed/simulated/onetrace -out DIR     writes DIR/overlay.json
//	go test -overlay DIR/overlay.json -tags onetrace ./sim
//
// Each patch replaces a text that must occur exactly once in the sources of the
// installed Go. If one does not, onetrace reports it and exits with 1; the
// simulator then runs with the runtime as it is.
package main
