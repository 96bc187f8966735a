package zklatch

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

var (
	// ErrNotHeld: Release was called by who holds nothing.
	ErrNotHeld = errors.New("the lock is not held")
	// ErrHoldLost: the lock was held by a session that is over. It must be released,
	// as often as it was acquired, before it can be acquired again.
	ErrHoldLost = errors.New("the lock was lost with its session")
)

// Mutex is a fair lock: who asks first holds first. It is reentrant: its owner is
// this handle, which may acquire it again and must release it as often. Goroutines
// that are to exclude one another need a handle each.
type Mutex struct {
	line line

	turn chan struct{} // cap 1: who acquires or releases

	mu     sync.Mutex // guards what follows
	place  place
	count  int
	revoke func(*Mutex) // nil: not revocable
	calm   func()       // ends the watch for requests to revoke; nil: none
}

// The kind of a mutex' nodes.
const lockKind = "-lock-"

// Mutex is a handle of the lock at a path. data is shown to others who look at the
// participants.
func (c *Client) Mutex(path string, data []byte) *Mutex {
	return c.mutex(path, lockKind, []string{lockKind}, data, oneAtATime)
}

func (c *Client) mutex(path, kind string, kinds []string, data []byte, before rule) *Mutex {
	return &Mutex{
		line: line{c: c, dir: path, kind: kind, kinds: kinds, data: data, before: before},
		turn: make(chan struct{}, 1),
	}
}

// Acquire waits until this handle holds the lock.
func (m *Mutex) Acquire(ctx context.Context) error {
	select {
	case m.turn <- struct{}{}:
		defer func() { <-m.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	m.mu.Lock()
	held, p := m.count > 0, m.place
	if held && m.line.c.alive(p) {
		m.count++
		m.mu.Unlock()
		return nil
	}
	m.mu.Unlock()
	if held {
		return fmt.Errorf("acquire %s again: %w", m.line.dir, ErrHoldLost)
	}
	p, err := m.line.stand(ctx)
	if err != nil {
		return fmt.Errorf("acquire %s: %w", m.line.dir, err)
	}
	m.mu.Lock()
	m.place, m.count = p, 1
	m.mu.Unlock()
	m.heedRevocation()
	return nil
}

// TryAcquire waits no longer than limit; false: that was not enough, and the place
// in the line is given up.
func (m *Mutex) TryAcquire(ctx context.Context, limit time.Duration) (bool, error) {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := m.Acquire(limited)
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		return false, nil
	}
	return err == nil, err
}

// Release counts down; the last one gives the lock back. That always comes about: a
// delete whose answer is lost is repeated in the background. ErrNotHeld: there was
// nothing to release.
func (m *Mutex) Release(ctx context.Context) error {
	m.mu.Lock()
	if m.count == 0 {
		m.mu.Unlock()
		return fmt.Errorf("release %s: %w", m.line.dir, ErrNotHeld)
	}
	m.count--
	p, last, calm := m.place, m.count == 0, m.calm
	if last {
		m.calm = nil
	}
	m.mu.Unlock()
	if last {
		if calm != nil {
			calm()
		}
		m.line.leave(ctx, p)
	}
	return nil
}

// Held says whether this handle holds the lock, as far as its session goes.
func (m *Mutex) Held() bool {
	m.mu.Lock()
	held, p := m.count > 0, m.place
	m.mu.Unlock()
	return held && m.line.c.alive(p)
}

// Holding is a context for the work under the lock: it ends, with ErrSuspended, as
// soon as the hold cannot be relied on. cancel frees what it needs.
func (m *Mutex) Holding(parent context.Context) (ctx context.Context, cancel func()) {
	m.mu.Lock()
	session, held := m.place.session, m.count > 0
	m.mu.Unlock()
	if !held {
		ctx, end := context.WithCancelCause(parent)
		end(ErrNotHeld)
		return ctx, func() {}
	}
	return m.line.c.holding(parent, session)
}

// Participant is somebody in a line.
type Participant struct {
	Path string // of its node
	Data []byte // that it gave
}

// Participants are who holds the lock, first, and who waits for it, in order.
func (m *Mutex) Participants(ctx context.Context) ([]Participant, error) {
	return m.line.participants(ctx)
}

func (l line) participants(ctx context.Context) ([]Participant, error) {
	names, err := l.look(ctx)
	if errors.Is(err, ErrNoNode) {
		return nil, nil // nobody was ever here
	}
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", l.dir, err)
	}
	var list []Participant
	for _, name := range names {
		path := l.dir + "/" + name
		data, _, err := l.c.tree.Get(ctx, path)
		if errors.Is(err, ErrNoNode) {
			continue // it has just left
		}
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", l.dir, err)
		}
		list = append(list, Participant{Path: path, Data: data})
	}
	return list, nil
}

// alive says whether the session of a place is still ours.
func (c *Client) alive(p place) bool {
	s, _ := c.tree.Session()
	return s.ID == p.session
}
