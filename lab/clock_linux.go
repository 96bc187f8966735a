package lab

import (
	"syscall"
	"time"
	"unsafe"
)

// sharedNow reads CLOCK_MONOTONIC, which steps of the wall clock do not change.
func sharedNow() int64 {
	const clockMonotonic = 1
	var ts syscall.Timespec
	if _, _, err := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clockMonotonic, uintptr(unsafe.Pointer(&ts)), 0); err != 0 {
		return time.Now().UnixNano()
	}
	return ts.Nano()
}
