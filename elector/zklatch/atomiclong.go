package zklatch

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"
)

// AtomicLong is a number that all clients of a path share (DistributedAtomicLong of
// Curator). Each change is a write at the version that was read; if another change comes
// between, it is tried again, and after some tries under a mutex, if there is one. It is
// stored as Curator does, in eight bytes; without a node it is 0. It is safe for
// concurrent use.
type AtomicLong struct {
	c    *Client
	path string
	cfg  AtomicLongConfig
}

// AtomicLongConfig configures an AtomicLong. All fields are optional.
type AtomicLongConfig struct {
	// Tries is how often a change is tried without the mutex, and then as often under
	// it. Default 3.
	Tries int
	// Lock is the path of the mutex (PromotedToLock of Curator); empty for none. Under it
	// a change can still fail, because others are tried without it.
	Lock string
	// LockLimit is how long a change waits for the mutex; 0 until its context ends.
	LockLimit time.Duration
}

// AtomicValue is the result of an operation (AtomicValue of Curator).
type AtomicValue struct {
	Succeeded bool
	Pre       int64 // before the operation, as it was read last
	Post      int64 // after it, if it has succeeded
}

// AtomicLong returns a handle of the number at a path.
func (c *Client) AtomicLong(path string, cfg AtomicLongConfig) *AtomicLong {
	if cfg.Tries == 0 {
		cfg.Tries = 3
	}
	return &AtomicLong{c, path, cfg}
}

// Get returns the number, as Pre and Post.
func (a *AtomicLong) Get(ctx context.Context) (AtomicValue, error) {
	n, _, _, err := a.read(ctx)
	if err != nil {
		return AtomicValue{}, fmt.Errorf("get %s: %w", a.path, err)
	}
	return AtomicValue{true, n, n}, nil
}

// Add adds delta (add, subtract, increment and decrement of Curator). After
// ErrConnectionLost the outcome is unknown, as it is for the other changes.
func (a *AtomicLong) Add(ctx context.Context, delta int64) (AtomicValue, error) {
	return a.change(ctx, func(pre int64) int64 { return pre + delta })
}

// TrySet sets the number, by the same tries as Add (trySet of Curator).
func (a *AtomicLong) TrySet(ctx context.Context, n int64) (AtomicValue, error) {
	return a.change(ctx, func(int64) int64 { return n })
}

// Set sets the number, whatever the node contains (forceSet of Curator).
func (a *AtomicLong) Set(ctx context.Context, n int64) error {
	for exists := true; ; exists = !exists {
		if r, err := a.write(ctx, 0, n, AnyVersion, exists); err != nil || r.Succeeded {
			return err
		}
	}
}

// CompareAndSet sets the number if it was set and is want. It is tried once: it may
// also fail because of another change.
func (a *AtomicLong) CompareAndSet(ctx context.Context, want, n int64) (AtomicValue, error) {
	pre, version, exists, err := a.read(ctx)
	if err != nil || !exists || pre != want {
		return AtomicValue{Pre: pre}, err
	}
	return a.write(ctx, pre, n, version, exists)
}

// Initialize sets the number if it was never set. It reports whether it did.
func (a *AtomicLong) Initialize(ctx context.Context, n int64) (bool, error) {
	r, err := a.write(ctx, 0, n, 0, false)
	return r.Succeeded, err
}

// change tries an operation, and then tries it under the mutex.
func (a *AtomicLong) change(ctx context.Context, next func(pre int64) int64) (r AtomicValue, err error) {
	try := func() bool {
		for range a.cfg.Tries {
			var pre int64
			var version int32
			var exists bool
			if pre, version, exists, err = a.read(ctx); err == nil {
				r, err = a.write(ctx, pre, next(pre), version, exists)
			}
			if r.Succeeded || err != nil {
				return true
			}
		}
		return false
	}
	if try() || a.cfg.Lock == "" {
		return r, err
	}
	m := a.c.Mutex(a.cfg.Lock, nil)
	acquired := true
	if a.cfg.LockLimit > 0 {
		acquired, err = m.TryAcquire(ctx, a.cfg.LockLimit)
	} else {
		err = m.Acquire(ctx)
	}
	if err != nil || !acquired {
		return r, err
	}
	try()
	return r, errors.Join(err, m.Release(ctx)) // a deletion that fails is repeated in the background
}

// read returns the number and the version of its node.
func (a *AtomicLong) read(ctx context.Context) (n int64, version int32, exists bool, err error) {
	data, stat, err := a.c.get(ctx, a.path)
	switch {
	case errors.Is(err, ErrNoNode):
		return 0, 0, false, nil
	case err != nil:
		return 0, 0, false, fmt.Errorf("read %s: %w", a.path, err)
	case len(data) == 0:
		return 0, stat.Version, true, nil
	case len(data) != 8:
		return 0, 0, false, fmt.Errorf("read %s: %d bytes are no number (want 8)", a.path, len(data))
	}
	return int64(binary.BigEndian.Uint64(data)), stat.Version, true, nil
}

// write writes the number if the node is as it was read. Otherwise it has not
// succeeded, which is no error.
func (a *AtomicLong) write(ctx context.Context, pre, post int64, version int32, exists bool) (AtomicValue, error) {
	data := binary.BigEndian.AppendUint64(nil, uint64(post))
	var err error
	if exists {
		err = a.c.callOnce(ctx, func() error {
			_, err := a.c.tree.Set(ctx, a.path, data, version)
			return err
		})
	} else {
		err = a.c.createNode(ctx, a.path, data, Persistent, a.c.callOnce)
	}
	switch {
	case err == nil:
		return AtomicValue{true, pre, post}, nil
	case errors.Is(err, ErrBadVersion), errors.Is(err, ErrNodeExists), errors.Is(err, ErrNoNode):
		return AtomicValue{Pre: pre}, nil
	}
	return AtomicValue{Pre: pre}, fmt.Errorf("set %s: %w", a.path, err)
}
