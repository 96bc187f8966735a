package termcas_test

import (
	"syscall"
	"time"
	"unsafe"
)

// monotonic returns CLOCK_MONOTONIC, on which Go's monotonic times are based too.
func monotonic() time.Duration {
	var now syscall.Timespec
	const clockMonotonic = 1
	if _, _, errno := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, clockMonotonic, uintptr(unsafe.Pointer(&now)), 0); errno != 0 {
		panic(errno)
	}
	return time.Duration(now.Nano())
}
