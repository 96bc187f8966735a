package zklatch

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// ReadWrite is a lock that many may read under, or one write. It is fair: nobody
// passes who came before and is of the other kind. Its owner is this handle.
type ReadWrite struct {
	read, write *Mutex
}

// The kinds of its nodes, in one line.
const (
	readKind  = "-read-"
	writeKind = "-write-"
)

// ErrUpgrade: a reader asked for the write lock. Two that did so would wait for each
// other for ever.
var ErrUpgrade = errors.New("a reader cannot become a writer: release the read lock first")

// ReadWrite is a handle of the lock at a path.
func (c *Client) ReadWrite(path string, data []byte) *ReadWrite {
	kinds := []string{readKind, writeKind}
	rw := &ReadWrite{write: c.mutex(path, writeKind, kinds, data, oneAtATime)}
	rw.read = c.mutex(path, readKind, kinds, data, rw.mayRead)
	return rw
}

// mayRead is the readers' rule: no writer before them, but for their own handle. They
// watch the last writer before them: nobody can go before that one has gone.
func (rw *ReadWrite) mayRead(line []string, at int) (watch string, mayGo bool) {
	rw.write.mu.Lock()
	own, writing := rw.write.place.name, rw.write.count > 0
	rw.write.mu.Unlock()
	for i := at - 1; i >= 0; i-- {
		if strings.Contains(line[i], writeKind) && !(writing && line[i] == own) {
			return line[i], false
		}
	}
	return "", true
}

// AcquireRead waits until this handle may read. Who writes may also read, and then
// give up writing: it reads on.
func (rw *ReadWrite) AcquireRead(ctx context.Context) error { return rw.read.Acquire(ctx) }

// ReleaseRead counts down.
func (rw *ReadWrite) ReleaseRead(ctx context.Context) error { return rw.read.Release(ctx) }

// AcquireWrite waits until this handle alone holds the lock.
func (rw *ReadWrite) AcquireWrite(ctx context.Context) error {
	if rw.read.Held() && !rw.write.Held() {
		return fmt.Errorf("acquire %s: %w", rw.write.line.dir, ErrUpgrade)
	}
	return rw.write.Acquire(ctx)
}

// ReleaseWrite counts down.
func (rw *ReadWrite) ReleaseWrite(ctx context.Context) error { return rw.write.Release(ctx) }
