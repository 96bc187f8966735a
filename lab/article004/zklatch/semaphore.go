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
	held []place    // by this handle; more than one only if the session of the first has ended
}

// The kind of a semaphore's nodes.
const leaseKind = "-lease-"

// SemaphoreMutex returns a handle of the lock at a path.
func (c *Client) SemaphoreMutex(path string) *SemaphoreMutex {
	return &SemaphoreMutex{queue: queue{c: c, dir: path, kind: leaseKind, before: oneAtATime}}
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

// Release undoes the oldest Acquire. It returns ErrNotHeld if there is none.
func (s *SemaphoreMutex) Release(ctx context.Context) error {
	s.mu.Lock()
	if len(s.held) == 0 {
		s.mu.Unlock()
		return fmt.Errorf("release %s: %w", s.queue.dir, ErrNotHeld)
	}
	oldest := s.held[0]
	s.held = s.held[1:]
	s.mu.Unlock()
	s.queue.leave(ctx, oldest)
	return nil
}
