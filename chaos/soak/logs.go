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

// bad are the words that no log may have.
var bad = []string{"DATA RACE", "panic:", "fatal error:", "SIGSEGV"}

// logs reads the processes' logs on, from where it stopped before.
type logs struct {
	read map[string]int64
}

// checkLogs reads what was logged since the last call.
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
		r.oracle.Expect(checkLog, found == "", "the log of %s has: %s", name, found)
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
		if err != nil { // the rest of a line is read next time
			return found, nil
		}
		l.read[file] += int64(len(line))
		if found == "" && slices.ContainsFunc(bad, func(w string) bool { return strings.Contains(line, w) }) {
			found = strings.TrimSpace(line)
		}
	}
}
