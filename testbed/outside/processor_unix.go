//go:build unix

package outside

import (
	"time"

	"golang.org/x/sys/unix"
)

// ProcessorTime returns how long a process of this machine has had a processor, in
// user and system mode, 0 if that is not known (Linux only). It is that of the scheduler:
// /proc counts whole ticks, which what wakes with the clock often has without using them.
func ProcessorTime(pid int) time.Duration {
	var used unix.Timespec
	if pid <= 0 || unix.ClockGettime(int32(^pid<<3|2), &used) != nil { // CPUCLOCK_SCHED of clock_getcpuclockid(3)
		return 0
	}
	return time.Duration(used.Nano())
}
