package zklatch

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

var (
	// ErrNotHeld is returned by Release if the handle does not hold the lock.
	ErrNotHeld = errors.New("the lock is not held")
	// ErrHoldLost is returned by Acquire if the lock was held by a session that has
	// ended. It must be released, as often as it was acquired, before it can be
	// acquired again.
	ErrHoldLost = errors.New("the lock was lost with its session")
)

// Mutex is a fair, reentrant lock (InterProcessMutex in article 004). Its owner is this
// handle, which may acquire it again and must release it as often. One goroutine at a time
// calls Acquire; goroutines that must exclude one another need a handle each.
type Mutex struct {
	queue queue

	mu     sync.Mutex // guards the fields below
	place  place
	count  int
	revoke func(*Mutex) // nil if not revocable
}

// The kind of a mutex's nodes.
const lockKind = "-lock-"

// Mutex returns a handle of the lock at a path. data is what Client.Participants shows of it.
func (c *Client) Mutex(path string, data []byte) *Mutex {
	return c.mutex(path, lockKind, data, oneAtATime)
}

func (c *Client) mutex(path, kind string, data []byte, before rule) *Mutex {
	return &Mutex{queue: queue{c: c, dir: path, kind: kind, data: data, before: before}}
}

// Acquire waits until this handle holds the lock. It returns ErrRetryRefused if the
// Client's policy ends it.
func (m *Mutex) Acquire(ctx context.Context) error {
	m.mu.Lock()
	held := m.count > 0
	s, _ := m.queue.c.Session()
	if held && s.ID == m.place.session {
		m.count++
		m.mu.Unlock()
		return nil
	}
	m.mu.Unlock()
	if held {
		return fmt.Errorf("acquire %s again: %w", m.queue.dir, ErrHoldLost)
	}
	p, err := m.queue.stand(ctx)
	if err != nil {
		return fmt.Errorf("acquire %s: %w", m.queue.dir, err)
	}
	m.mu.Lock()
	m.place, m.count = p, 1
	m.mu.Unlock()
	m.watchForRevocation()
	return nil
}

// TryAcquire is Acquire with a time limit. It returns false if the lock was not
// acquired in time; the place in the queue is deleted then.
func (m *Mutex) TryAcquire(ctx context.Context, limit time.Duration) (bool, error) {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := m.Acquire(limited)
	if ctx.Err() == nil && limited.Err() != nil && errors.Is(err, limited.Err()) {
		return false, nil
	}
	return err == nil, err
}

// Release undoes one Acquire; the last one releases the lock. If that fails, it is
// repeated in the background until it succeeds. Release returns ErrNotHeld if the
// handle does not hold the lock.
func (m *Mutex) Release(ctx context.Context) error {
	m.mu.Lock()
	if m.count == 0 {
		m.mu.Unlock()
		return fmt.Errorf("release %s: %w", m.queue.dir, ErrNotHeld)
	}
	m.count--
	p, last := m.place, m.count == 0
	m.mu.Unlock()
	if last {
		m.queue.leave(ctx, p)
	}
	return nil
}

// Held reports whether this handle holds the lock, and can rely on it now.
func (m *Mutex) Held() bool {
	session, held := m.heldBy()
	s, _ := m.queue.c.Session()
	return held && s.reliable(session)
}

// heldBy returns the session of the node by which this handle holds the lock.
func (m *Mutex) heldBy() (session int64, held bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.place.session, m.count > 0
}

// Holding returns a context for the work under the lock. It ends with ErrSuspended as
// soon as the hold cannot be relied on, which is before the servers can have given it to
// another client. cancel ends it earlier, and joins its goroutine.
func (m *Mutex) Holding(parent context.Context) (ctx context.Context, cancel func()) {
	began, _ := m.queue.c.Session()
	session, held := m.heldBy()
	ctx, end := context.WithCancelCause(parent)
	if !held {
		end(ErrNotHeld)
		return ctx, func() {}
	}
	var group sync.WaitGroup
	group.Go(func() {
		m.queue.c.whileReliable(ctx, began, session, nil)
		end(ErrSuspended) // changes nothing if ctx has ended
	})
	return ctx, func() {
		end(context.Canceled)
		group.Wait()
	}
}
