package zklatch

import (
	"context"
	"fmt"
	"sync"
)

// Semaphore admits a number of holders at a time; with one it is
// InterProcessSemaphoreMutex in article 004. It has no owner: it is not
// reentrant, and any goroutine may release what another has acquired.
type Semaphore struct {
	queue queue

	mu     sync.Mutex // guards the fields below
	places []place    // held by this handle, oldest first
}

// The kind of a semaphore's nodes.
const leaseKind = "-lease-"

// SemaphoreMutex returns a handle of a semaphore with one holder at a path: a mutex
// without an owner.
func (c *Client) SemaphoreMutex(path string) *Semaphore { return c.Semaphore(path, 1) }

// Semaphore returns a handle of the semaphore at a path, which n may hold at a time.
// All handles must use the same n.
func (c *Client) Semaphore(path string, n int) *Semaphore {
	return &Semaphore{queue: queue{c: c, dir: path, kind: leaseKind, kinds: []string{leaseKind}, before: upTo(n)}}
}

// Acquire waits for one of the n holds. It is not reentrant: a second call waits for a
// second hold, with n = 1 for ever.
func (s *Semaphore) Acquire(ctx context.Context) error {
	p, err := s.queue.stand(ctx)
	if err != nil {
		return fmt.Errorf("acquire %s: %w", s.queue.dir, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.places = append(s.places, p)
	return nil
}

// Release releases the oldest hold of this handle.
func (s *Semaphore) Release(ctx context.Context) error {
	s.mu.Lock()
	if len(s.places) == 0 {
		s.mu.Unlock()
		return fmt.Errorf("release %s: %w", s.queue.dir, ErrNotHeld)
	}
	p := s.places[0]
	s.places = s.places[1:]
	s.mu.Unlock()
	s.queue.leave(ctx, p)
	return nil
}
