package lab

import (
	"math"
	"time"

	"golang.org/x/sys/unix"
)

// sharedNow reads CLOCK_MONOTONIC, which all processes of a machine share and steps of
// the wall clock do not change.
func sharedNow() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic(err) // cannot happen: every system has this clock
	}
	return ts.Nano()
}

// origin is one moment on this process's monotonic clock and on the one that
// all processes of the machine share, so that times of different processes can
// be compared. The shared clock is read before and after the process's own; of
// several such pairs the closest is used, because the kernel may run another
// process in between.
var origin = func() (o struct {
	at     time.Time
	shared int64
}) {
	closest := int64(math.MaxInt64)
	for range 16 {
		before := sharedNow()
		at := time.Now()
		if width := sharedNow() - before; width < closest {
			closest, o.at, o.shared = width, at, before+width/2
		}
	}
	return o
}()

// stamp converts a time to the shared clock, in nanoseconds.
func stamp(t time.Time) int64 { return origin.shared + t.Sub(origin.at).Nanoseconds() }
