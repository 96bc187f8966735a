package bench

import (
	"bufio"
	"fmt"
	"math"
	"os"
	"runtime/debug"
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

const (
	// usualConnections are what every machine is taken to be able to have.
	usualConnections = 10_000
	hugeConnections  = 100_000
	// hugeAtOnce is how many of hugeConnections wait for their push at the same time:
	// if all are opened at once, the handshakes keep two cores busy for longer than any
	// client waits, and none is served.
	hugeAtOnce = 500
	// memoryPerConnection is what a connection takes at both of its ends, with what
	// the garbage collector leaves.
	memoryPerConnection = 160 << 10
	// pingTime is the processor time of a ping, of which each client sends one a
	// second also when it is idle: 53 us of the session and 37 us of the client
	// (docs/performance.md).
	pingTime = 90 * time.Microsecond
)

// Machinery is what a machine has for connections. What is 0 is not known.
type Machinery struct {
	Files  int   // that a process can have open
	Memory int64 // that is available, in bytes
	CPUs   int
}

// fits returns an error if the machine cannot have a number of connections: before
// anything is started, instead of after minutes.
func (c Machinery) fits(connections int) error {
	if connections <= usualConnections {
		return nil
	}
	if least := connections * 5 / 4; c.Files > 0 && c.Files < least {
		return fmt.Errorf("not enough open files for %d connections: the hard limit is %d, want %d or more (ulimit -Hn)", connections, c.Files, least)
	}
	if needs := int64(connections) * memoryPerConnection; c.Memory > 0 && c.Memory < needs {
		return fmt.Errorf("not enough memory for %d connections: %d MiB available, want about %d MiB", connections, c.Memory>>20, needs>>20)
	}
	if needs := math.Ceil((time.Duration(connections) * pingTime).Seconds()); c.CPUs > 0 && float64(c.CPUs) < needs {
		return fmt.Errorf("not enough processors for %d connections: %d, want at least %.0f, which their pings alone keep busy", connections, c.CPUs, needs)
	}
	return nil
}

// fewerCollections makes the collector of this process, which is the load and not
// what is measured, leave more of the machine to the cluster. It returns the
// function that ends that.
func fewerCollections() (end func()) {
	before := debug.SetGCPercent(400)
	return func() { debug.SetGCPercent(before) }
}
