package zklatch

import (
	"context"
	"fmt"
	"sync"
)

// Semaphore lets so many in at a time, and nobody owns it: it is not reentrant, and who
// acquired it need not be who releases it.
type Semaphore struct {
	line line

	mu     sync.Mutex // guards what follows
	places []place    // held by this handle, the oldest first
}

// The kind of a semaphore's nodes.
const leaseKind = "-lease-"

// SemaphoreMutex is a handle of the semaphore of one at a path: a mutex without owner.
func (c *Client) SemaphoreMutex(path string) *Semaphore { return c.Semaphore(path, 1) }

// Semaphore is a handle of the semaphore at a path, which n may hold at a time. All
// must say the same n.
func (c *Client) Semaphore(path string, n int) *Semaphore {
	return &Semaphore{line: line{c: c, dir: path, kind: leaseKind, kinds: []string{leaseKind}, before: upTo(n)}}
}

// Acquire waits for one of the places; a second call waits for a second one, and with
// one place for ever: it is not reentrant.
func (s *Semaphore) Acquire(ctx context.Context) error {
	p, err := s.line.stand(ctx)
	if err != nil {
		return fmt.Errorf("acquire %s: %w", s.line.dir, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.places = append(s.places, p)
	return nil
}

// Release gives one place back, whoever of this handle took it.
func (s *Semaphore) Release(ctx context.Context) error {
	s.mu.Lock()
	if len(s.places) == 0 {
		s.mu.Unlock()
		return fmt.Errorf("release %s: %w", s.line.dir, ErrNotHeld)
	}
	p := s.places[0]
	s.places = s.places[1:]
	s.mu.Unlock()
	s.line.leave(ctx, p)
	return nil
}
