package soak

import (
	"bytes"
	"context"
	"maps"
	"os"
	"slices"
	"strings"
)

// bad are the words that no log may contain.
var bad = []string{"DATA RACE", "panic:", "fatal error:", "SIGSEGV"}

// checkLogs checks what the processes have logged since it was last called.
func (r *runner) checkLogs(ctx context.Context) error {
	files, err := r.cluster.LogFiles(ctx)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		text, err := os.ReadFile(files[name])
		if err != nil {
			return err
		}
		fresh := text[min(r.logged[name], len(text)):]
		fresh = fresh[:bytes.LastIndexByte(fresh, '\n')+1] // the rest of an incomplete line follows
		r.logged[name] += len(fresh)
		found := firstBad(string(fresh))
		r.oracle.Expect(checkLog, found == "", "the log of %s contains: %s", name, found)
	}
	return err
}

// firstBad returns the first line that is bad, or "".
func firstBad(log string) string {
	for line := range strings.Lines(log) {
		if slices.ContainsFunc(bad, func(w string) bool { return strings.Contains(line, w) }) {
			return strings.TrimSpace(line)
		}
	}
	return ""
}
