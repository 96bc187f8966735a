// Command onetrace writes an overlay for the go command, with which one seed of
// the simulator gives one trace, event by event.
//
// In a bubble the runtime of Go is repeatable but for what it draws at random on
// purpose: which ready case a select takes, which of two timers of one instant
// fires first, in which order a map is walked through, a context's children are
// cancelled and a server's connections closed; and but for goroutines that are interrupted because they have
// run for long. The overlay lets a bubble draw from a stream of its own, which
// runtime.SetBubbleSeed sets, and interrupts nobody in it. Outside of bubbles
// nothing changes but that goroutines start with a larger stack. Nothing of it is
// in any program that is built without it.
//
//	go run ./sim/onetrace -out DIR     writes DIR/overlay.json
//	go test -overlay DIR/overlay.json -tags onetrace ./sim
//
// The patches are texts that must occur exactly once in the sources of the
// installed Go. Where they do not, it says so and ends with 1: the simulator then
// runs with the runtime as it is.
package main
