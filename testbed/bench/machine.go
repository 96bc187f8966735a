package bench

import (
	"runtime/debug"
	"syscall"
	"time"
)

// processorTime returns how long this process has had a processor, 0 if that is not
// known.
func processorTime() time.Duration {
	var used syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &used) != nil {
		return 0
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// fewerCollections makes the collector of this process, which is the load and not
// what is measured, leave more of the machine to the cluster. It returns the
// function that ends that.
func fewerCollections() (end func()) {
	before := debug.SetGCPercent(400)
	return func() { debug.SetGCPercent(before) }
}
