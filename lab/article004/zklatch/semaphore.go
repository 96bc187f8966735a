package zklatch

import (
	"context"
	"fmt"
	"sync"
)

// SemaphoreMutex is a fair lock without an owner (InterProcessSemaphoreMutex in article
// 004): it is not reentrant, and any goroutine may release what another has acquired.
type SemaphoreMutex struct {
	queue queue

	mu   sync.Mutex // guards the field below
	held []place    // by this handle; at most one
}

// The kind of a semaphore's nodes.
const leaseKind = "-lease-"

// SemaphoreMutex returns a handle of the lock at a path.
func (c *Client) SemaphoreMutex(path string) *SemaphoreMutex {
	return &SemaphoreMutex{queue: queue{c: c, dir: path, kind: leaseKind, kinds: []string{leaseKind}, before: oneAtATime}}
}

// Acquire waits for the lock, also if this handle holds it.
func (s *SemaphoreMutex) Acquire(ctx context.Context) error {
	p, err := s.queue.stand(ctx)
	if err != nil {
		return fmt.Errorf("acquire %s: %w", s.queue.dir, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held = append(s.held, p)
	return nil
}

// Release releases the lock. It returns ErrNotHeld if this handle does not hold it.
func (s *SemaphoreMutex) Release(ctx context.Context) error {
	s.mu.Lock()
	held := s.held
	s.held = nil
	s.mu.Unlock()
	if len(held) == 0 {
		return fmt.Errorf("release %s: %w", s.queue.dir, ErrNotHeld)
	}
	for _, p := range held { // more than one only if the session of the first has ended
		s.queue.leave(ctx, p)
	}
	return nil
}
