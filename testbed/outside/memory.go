package outside

import (
	"os"
	"strconv"
	"strings"
	"time"
)

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
