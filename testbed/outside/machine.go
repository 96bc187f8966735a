package outside

import (
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/prometheus/procfs"

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
func Resident(pid int) int64 { return int64(stat(pid).ResidentMemory()) }

// ProcessorTime returns how long a process of this machine has had a processor, in
// user and system mode, 0 if that is not known (Linux only).
func ProcessorTime(pid int) time.Duration {
	return time.Duration(stat(pid).CPUTime() * float64(time.Second))
}

// stat returns what the kernel knows of a process, or nothing.
func stat(pid int) (s procfs.ProcStat) {
	if p, err := procfs.NewProc(pid); err == nil {
		s, _ = p.Stat() // it may have ended
	}
	return s
}
