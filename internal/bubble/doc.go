// Package bubble is imported, for its effect alone, by every test package that
// uses testing/synctest: built with the race detector, such a program runs on one
// processor.
//
// All timers of a bubble share one context of the race detector, and two
// goroutines that run at the same time may both fire one: one from the bubble's
// loop, one from a receive on a timer's channel. The detector then ends the
// program with SIGSEGV or "ThreadSanitizer: CHECK failed" (golang/go#78156, open
// with Go 1.26). The detector compares what happens before what, not
// what runs at the same time, so that it sees races on one processor, too; but fewer
// orders of goroutines occur.
package bubble
