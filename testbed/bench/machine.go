package bench

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// AvailableMemory returns how much memory in bytes the machine has available, 0 if
// that is not known (Linux only).
func AvailableMemory() int64 {
	f, err := os.Open("/proc/meminfo")
	if err != nil {
		return 0
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var kib int64
		if n, _ := fmt.Sscanf(lines.Text(), "MemAvailable: %d kB", &kib); n == 1 {
			return kib << 10
		}
	}
	return 0
}

// processorTime returns how long this process has had a processor, 0 if that is not
// known.
func processorTime() time.Duration {
	var used syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &used) != nil {
		return 0
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// machineLoad returns the state of the machine as a part of an error, "" if it is
// not known: how many processes wanted to run, and the available memory.
func machineLoad() string {
	load, err := os.ReadFile("/proc/loadavg")
	one, _, ok := strings.Cut(string(load), " ")
	if err != nil || !ok {
		return ""
	}
	return fmt.Sprintf(" (load average %s on %d CPUs, %d MiB of memory available)", one, runtime.NumCPU(), AvailableMemory()>>20)
}
