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
func Resident(pid int) int64 {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return 0
	}
	stat, _ := p.Stat() // it may have ended
	return int64(stat.ResidentMemory())
}
