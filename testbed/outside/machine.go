package outside

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"conclave/internal/trace"
)

// Events reads the events that the nodes of a cluster have written into a
// folder, one file NAME.trace for each node. had reports whether there is such
// a file.
func Events(dir string, report func(at time.Time, c trace.Claim)) (had bool, err error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.trace"))
	for _, name := range files {
		f, ferr := os.Open(name)
		if ferr == nil {
			ferr = trace.Load(f, report)
			f.Close()
		}
		err = errors.Join(err, ferr)
	}
	return len(files) > 0, err
}

// Resident returns the resident memory of a process in bytes; 0 without /proc.
func Resident(pid int) int64 {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/statm")
	fields := strings.Fields(string(text))
	if err != nil || len(fields) < 2 {
		return 0
	}
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	if err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}

// ticksPerSecond is the unit of the times in /proc/PID/stat (USER_HZ, which is 100
// on every architecture that Go supports).
const ticksPerSecond = 100

// ProcessorTime returns how long a process of this machine has had a processor, in
// user and system mode, 0 if that is not known (Linux only).
func ProcessorTime(pid int) time.Duration {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	_, rest, ok := strings.Cut(string(text), ") ") // the name before it may have spaces
	fields := strings.Fields(rest)
	if err != nil || !ok || len(fields) < 13 {
		return 0
	}
	var ticks int64
	for _, field := range fields[11:13] { // utime and stime
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0
		}
		ticks += n
	}
	return time.Duration(ticks) * time.Second / ticksPerSecond
}
