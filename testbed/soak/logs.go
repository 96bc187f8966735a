package soak

import (
	"bufio"
	"context"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
)

// bad are the words that no log may contain.
var bad = []string{"DATA RACE", "panic:", "fatal error:", "SIGSEGV"}

// logs remembers up to which offset each log file was read.
type logs struct {
	read map[string]int64
}

// checkLogs checks what was logged since the last call.
func (r *Runner) checkLogs(ctx context.Context) error {
	files, err := r.cluster.LogFiles(ctx)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		found, err := r.logs.scan(files[name])
		if err != nil {
			return err
		}
		r.oracle.Expect(checkLog, found == "", "the log of %s contains: %s", name, found)
	}
	return nil
}

// scan returns the first bad line of the file's new part.
func (l *logs) scan(file string) (found string, err error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	if _, err := f.Seek(l.read[file], io.SeekStart); err != nil {
		return "", err
	}
	in := bufio.NewReaderSize(f, 1<<16)
	for {
		line, err := in.ReadString('\n')
		if err != nil { // an incomplete line is read again next time
			return found, nil
		}
		l.read[file] += int64(len(line))
		if found == "" && slices.ContainsFunc(bad, func(w string) bool { return strings.Contains(line, w) }) {
			found = strings.TrimSpace(line)
		}
	}
}
