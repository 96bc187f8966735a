package live

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"conclave/internal/trace"
)

// readAtMost bounds what is read of one file at once.
const readAtMost = 4 << 20

// tail reads the trace files of a folder as they grow. Only one goroutine uses it.
type tail struct {
	dir   string
	files map[string]*tailed
}

// tailed is one file.
type tailed struct {
	*os.File
	at     int64 // until where it was read
	failed error // what follows a line that was not understood is lost
}

func newTail(dir string) *tail { return &tail{dir: dir, files: map[string]*tailed{}} }

// read passes on the claims that were written since the last call, and reports
// whether those were all.
func (t *tail) read(report func(at time.Time, c trace.Claim)) (all bool, err error) {
	names, err := filepath.Glob(filepath.Join(t.dir, "*.trace"))
	if err != nil {
		return false, err
	}
	all = true
	for _, name := range names {
		if t.files[name] == nil {
			f, err := os.OpenFile(name, os.O_RDWR, 0) // punch writes
			if err != nil {
				return false, err
			}
			t.files[name] = &tailed{File: f}
		}
		end, err := t.files[name].read(report)
		if err != nil {
			return false, fmt.Errorf("%s: %w", filepath.Base(name), err)
		}
		all = all && end
	}
	return all, nil
}

// read passes on the whole lines that follow what was read, and reports whether
// nothing follows them.
func (f *tailed) read(report func(at time.Time, c trace.Claim)) (end bool, err error) {
	if f.failed != nil {
		return false, f.failed
	}
	body, err := io.ReadAll(io.NewSectionReader(f, f.at, readAtMost))
	if err != nil {
		return false, err
	}
	end = len(body) < readAtMost
	body = body[:bytes.LastIndexByte(body, '\n')+1]
	if len(body) == 0 {
		return end, nil
	}
	f.at += int64(len(body))
	f.failed = trace.Load(bytes.NewReader(body), report)
	punch(f.File, f.at)
	return end, f.failed
}

func (t *tail) close() {
	for _, f := range t.files {
		f.Close()
	}
}
