package zklatch

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// ReadWrite is a lock for many readers or one writer (InterProcessReadWriteLock in
// article 004). It is fair: no request passes an
// earlier one of the other kind. Its owner is this handle.
type ReadWrite struct {
	read, write *Mutex
}

// The kinds of its nodes, in one queue.
const (
	readKind  = "-read-"
	writeKind = "-write-"
)

// ErrUpgrade is returned by AcquireWrite if the handle holds the read lock, also after its
// session has ended: two such handles would wait for each other for ever.
var ErrUpgrade = errors.New("a reader cannot become a writer: release the read lock first")

// ReadWrite returns a handle of the lock at a path.
func (c *Client) ReadWrite(path string, data []byte) *ReadWrite {
	rw := &ReadWrite{write: c.mutex(path, writeKind, data, oneAtATime)}
	rw.read = c.mutex(path, readKind, data, rw.mayRead)
	return rw
}

// mayRead is the rule of readers: no writer before them, except their own handle. A
// reader watches the last writer before it.
func (rw *ReadWrite) mayRead(names []string, at int) (watch string, mayGo bool) {
	rw.write.mu.Lock()
	own, writing := rw.write.place.name, rw.write.count > 0
	rw.write.mu.Unlock()
	for i := at - 1; i >= 0; i-- {
		if strings.Contains(names[i], writeKind) && !(writing && names[i] == own) {
			return names[i], false
		}
	}
	return "", true
}

// AcquireRead waits until this handle may read. A writer may acquire the read lock
// too and then release the write lock, which keeps the read lock.
func (rw *ReadWrite) AcquireRead(ctx context.Context) error { return rw.read.Acquire(ctx) }

// ReleaseRead undoes one AcquireRead.
func (rw *ReadWrite) ReleaseRead(ctx context.Context) error { return rw.read.Release(ctx) }

// AcquireWrite waits until this handle alone holds the lock.
func (rw *ReadWrite) AcquireWrite(ctx context.Context) error {
	_, reads := rw.read.heldBy()
	if _, writes := rw.write.heldBy(); reads && !writes {
		return fmt.Errorf("acquire %s: %w", rw.write.queue.dir, ErrUpgrade)
	}
	return rw.write.Acquire(ctx)
}

// ReleaseWrite undoes one AcquireWrite.
func (rw *ReadWrite) ReleaseWrite(ctx context.Context) error { return rw.write.Release(ctx) }
