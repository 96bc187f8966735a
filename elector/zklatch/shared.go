package zklatch

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
)

// Versioned is a value with the version of its node (VersionedValue of Curator).
type Versioned[T any] struct {
	Value   T
	Version int32 // how often the node was written; it begins again if the node is deleted
	Mzxid   int64 // the transaction that has written the value; unique
}

// Shared is a value that all clients of a path share and watch. [Client.SharedValue] and
// [Client.SharedCount] return one. It is safe for concurrent use.
type Shared[T any] struct {
	c      *Client
	path   string
	seed   []byte
	encode func(T) []byte
	decode func([]byte) (T, error)

	ctx  context.Context // ends with Close, or with the Client
	stop context.CancelFunc
	done chan struct{} // closed by watch

	mu        sync.Mutex // guards the fields below
	started   bool
	data      []byte // the newest value known, which can be decoded
	stat      Stat   // of data
	listeners []func(Versioned[T])
}

// SharedValue returns a handle of the bytes at a path (SharedValue of Curator). Start
// writes seed if there is no node.
func (c *Client) SharedValue(path string, seed []byte) *Shared[[]byte] {
	clone := slices.Clone[[]byte] // the caller's bytes and this handle's are never the same
	return newShared(c, path, seed, clone, func(data []byte) ([]byte, error) { return clone(data), nil })
}

// SharedCount returns a handle of the number at a path (SharedCount of Curator), which
// is stored as Curator does, in four bytes. Start writes seed if there is no node.
func (c *Client) SharedCount(path string, seed int32) *Shared[int32] {
	return newShared(c, path, seed, encodeCount, decodeCount)
}

func newShared[T any](c *Client, path string, seed T, encode func(T) []byte, decode func([]byte) (T, error)) *Shared[T] {
	s := &Shared[T]{c: c, path: path, seed: encode(seed), encode: encode, decode: decode, done: make(chan struct{})}
	s.ctx, s.stop = context.WithCancel(c.ctx) //nolint:gosec // Close calls stop
	return s
}

func encodeCount(n int32) []byte { return binary.BigEndian.AppendUint32(nil, uint32(n)) }

func decodeCount(data []byte) (int32, error) {
	if len(data) != 4 {
		return 0, fmt.Errorf("%d bytes are no count (want 4)", len(data))
	}
	return int32(binary.BigEndian.Uint32(data)), nil
}

// Listen adds a listener (SharedValueListener and SharedCountListener of Curator). It is
// called with each value that this handle finds after Start, in the order in which they
// were written, also with its own; of values in quick succession it may get only the
// last. The handle's own goroutine calls it, and reads nothing else meanwhile. It must
// not call Close, which waits for its return.
func (s *Shared[T]) Listen(changed func(Versioned[T])) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listeners = append(s.listeners, changed)
}

// Start creates the node if there is none, reads it, and watches it until Close, whatever
// the Client's policy. It returns ErrClosed if Close ends it.
func (s *Shared[T]) Start(ctx context.Context) error {
	s.mu.Lock()
	if s.started || s.ctx.Err() != nil {
		s.mu.Unlock()
		return ErrStarted
	}
	s.started = true
	s.mu.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(s.ctx, cancel)
	defer stop()
	first, err := s.load(ctx)
	if err != nil {
		if s.ctx.Err() != nil {
			err = ErrClosed
		}
		s.stop()
		close(s.done)
		return fmt.Errorf("start %s: %w", s.path, err)
	}
	go func() { // Close joins it
		defer close(s.done)
		s.watch(first)
	}()
	return nil
}

// Close ends Start and the watch, and waits for a listener that is being called. The
// node stays.
func (s *Shared[T]) Close() {
	s.mu.Lock()
	started := s.started
	s.stop()
	s.mu.Unlock()
	if started {
		<-s.done
	}
}

// Value returns a copy of the newest value that this handle knows (getValue and
// getVersionedValue of Curator).
func (s *Shared[T]) Value() Versioned[T] {
	s.mu.Lock()
	defer s.mu.Unlock()
	value, _ := s.versioned(s.data, s.stat) // before Start there is none
	return value
}

// versioned returns a copy of a value that was read or written.
func (s *Shared[T]) versioned(data []byte, stat Stat) (v Versioned[T], err error) {
	v.Value, err = s.decode(data)
	v.Version, v.Mzxid = stat.Version, stat.Mzxid
	return v, err
}

// Set writes a value, whatever it is now (setValue and setCount of Curator). After
// ErrConnectionLost the outcome is unknown.
func (s *Shared[T]) Set(ctx context.Context, value T) error {
	_, err := s.write(ctx, value, AnyVersion)
	return err
}

// TrySet writes a value if previous, which Value or a listener has returned, is still the
// newest (trySetValue and trySetCount of Curator). Otherwise it returns false, and Value
// returns the newest. After ErrConnectionLost the outcome is unknown.
//
// It reads the node first: a node that was deleted and created again can have the same
// version. That this happens after the read is not excluded.
func (s *Shared[T]) TrySet(ctx context.Context, previous Versioned[T], value T) (bool, error) {
	if previous.Version < 0 {
		return false, fmt.Errorf("set %s: version %d is no node's (want that of Value)", s.path, previous.Version)
	}
	mzxid, err := s.load(ctx)
	if err != nil {
		return false, fmt.Errorf("set %s: %w", s.path, err)
	}
	if mzxid != previous.Mzxid {
		return false, nil
	}
	return s.write(ctx, value, previous.Version)
}

func (s *Shared[T]) write(ctx context.Context, value T, version int32) (bool, error) {
	data := s.encode(value)
	var stat Stat
	err := s.c.callOnce(ctx, func() (err error) {
		stat, err = s.c.tree.Set(ctx, s.path, data, version)
		return err
	})
	written := err == nil
	switch {
	case written:
		err = s.learn(data, stat)
	case errors.Is(err, ErrBadVersion):
		_, err = s.load(ctx)
	}
	if err != nil {
		return false, fmt.Errorf("set %s: %w", s.path, err)
	}
	return written, nil
}

// load reads the node, and creates it if there is none. It returns the transaction that
// has written it.
func (s *Shared[T]) load(ctx context.Context) (mzxid int64, err error) {
	for {
		data, stat, err := s.c.get(ctx, s.path)
		switch {
		case err == nil:
			return stat.Mzxid, s.learn(data, stat)
		case !errors.Is(err, ErrNoNode):
			return 0, err
		}
		if err := s.c.persist(ctx, s.path, s.seed); err != nil {
			return 0, err
		}
	}
}

// learn keeps what was read or written, unless a newer value is known.
func (s *Shared[T]) learn(data []byte, stat Stat) error {
	if _, err := s.decode(data); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if stat.Mzxid > s.stat.Mzxid {
		s.data, s.stat = data, stat
	}
	return nil
}

// watch notifies the listeners of what comes after the transaction seen, until Close.
func (s *Shared[T]) watch(seen int64) {
	var w watch
	for s.ctx.Err() == nil {
		err := s.c.follow(s.ctx, s.path, &w, func(n node) (bool, error) {
			if !n.exists { // deleted: it begins again with the seed
				return false, s.c.persist(s.ctx, s.path, s.seed)
			}
			if n.stat.Mzxid > seen {
				seen = n.stat.Mzxid
				s.notify(n)
			}
			return false, nil
		})
		s.c.pauseAfter(s.ctx, err)
	}
}

// notify calls the listeners with what was read.
func (s *Shared[T]) notify(n node) {
	if err := s.learn(n.data, n.stat); err != nil {
		s.c.log.Warn("ignored a value", "path", s.path, "error", err)
		return
	}
	s.mu.Lock()
	listeners := slices.Clone(s.listeners)
	s.mu.Unlock()
	for _, changed := range listeners {
		value, _ := s.versioned(n.data, n.stat) // a copy for each
		changed(value)
	}
}
