package live

import (
	"bytes"
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
	at int64 // until where it was read
}

func newTail(dir string) *tail { return &tail{dir: dir, files: map[string]*tailed{}} }

// read passes on the claims that were written since the last call.
func (t *tail) read(report func(at time.Time, c trace.Claim)) error {
	names, err := filepath.Glob(filepath.Join(t.dir, "*.trace"))
	if err != nil {
		return err
	}
	for _, name := range names {
		if t.files[name] == nil {
			f, err := os.OpenFile(name, os.O_RDWR, 0) // punch writes
			if err != nil {
				return err
			}
			t.files[name] = &tailed{File: f}
		}
		if err := t.files[name].read(report); err != nil {
			return err
		}
	}
	return nil
}

// read passes on the whole lines that follow what was read.
func (f *tailed) read(report func(at time.Time, c trace.Claim)) error {
	body, err := io.ReadAll(io.NewSectionReader(f, f.at, readAtMost))
	if err != nil {
		return err
	}
	body = body[:bytes.LastIndexByte(body, '\n')+1]
	if len(body) == 0 {
		return nil
	}
	f.at += int64(len(body))
	err = trace.Load(bytes.NewReader(body), report)
	punch(f.File, f.at)
	return err
}

func (t *tail) close() {
	for _, f := range t.files {
		f.Close()
	}
}
