package zklatch

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
)

// Versioned is a value with the version of its node (VersionedValue of Curator). The
// bytes of a SharedValue must not be changed.
type Versioned[T any] struct {
	Value   T
	Version int32
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
	value     Versioned[T]
	zxid      int64 // the transaction that has written value
	listeners []func(Versioned[T])
}

// SharedValue returns a handle of the bytes at a path (SharedValue of Curator). Start
// writes seed if there is no node.
func (c *Client) SharedValue(path string, seed []byte) *Shared[[]byte] {
	return newShared(c, path, seed, slices.Clone[[]byte], func(data []byte) ([]byte, error) { return slices.Clone(data), nil })
}

// SharedCount returns a handle of the number at a path (SharedCount of Curator), which
// is stored as Curator does, in four bytes. Start writes seed if there is no node.
func (c *Client) SharedCount(path string, seed int32) *Shared[int32] {
	return newShared(c, path, seed, encodeCount, decodeCount)
}

func newShared[T any](c *Client, path string, seed T, encode func(T) []byte, decode func([]byte) (T, error)) *Shared[T] {
	s := &Shared[T]{c: c, path: path, seed: encode(seed), encode: encode, decode: decode, done: make(chan struct{})}
	s.ctx, s.stop = context.WithCancel(c.ctx)
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
// last. The handle's own goroutine calls it, and reads nothing else meanwhile.
func (s *Shared[T]) Listen(changed func(Versioned[T])) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listeners = append(s.listeners, changed)
}

// Start creates the node if there is none, reads it, and watches it until Close.
func (s *Shared[T]) Start(ctx context.Context) error {
	s.mu.Lock()
	if s.started || s.ctx.Err() != nil {
		s.mu.Unlock()
		return ErrStarted
	}
	s.started = true
	s.mu.Unlock()
	first, err := s.load(ctx)
	if err != nil {
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

// Close ends the watch. The node stays.
func (s *Shared[T]) Close() {
	s.mu.Lock()
	started := s.started
	s.stop()
	s.mu.Unlock()
	if started {
		<-s.done
	}
}

// Value returns the newest value that this handle knows (getValue and getVersionedValue
// of Curator).
func (s *Shared[T]) Value() Versioned[T] {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.value
}

// Set writes a value, whatever it is now (setValue and setCount of Curator). After
// ErrConnectionLost the outcome is unknown.
func (s *Shared[T]) Set(ctx context.Context, value T) error {
	_, err := s.write(ctx, value, AnyVersion)
	return err
}

// TrySet writes a value if previous is still the newest (trySetValue and trySetCount of
// Curator). Otherwise it returns false, and Value returns the newest. After
// ErrConnectionLost the outcome is unknown.
func (s *Shared[T]) TrySet(ctx context.Context, previous Versioned[T], value T) (bool, error) {
	return s.write(ctx, value, previous.Version)
}

func (s *Shared[T]) write(ctx context.Context, value T, version int32) (bool, error) {
	data := s.encode(value)
	stat, err := s.c.tree.Set(ctx, s.path, data, version)
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
func (s *Shared[T]) load(ctx context.Context) (zxid int64, err error) {
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
	value, err := s.decode(data)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if stat.Mzxid > s.zxid {
		s.value, s.zxid = Versioned[T]{value, stat.Version}, stat.Mzxid
	}
	return nil
}

// watch notifies the listeners of what comes after the transaction seen.
func (s *Shared[T]) watch(seen int64) {
	err := s.c.follow(s.ctx, s.path, func(n node) (bool, error) {
		if !n.exists { // deleted: it begins again with the seed
			return false, s.c.persist(s.ctx, s.path, s.seed)
		}
		if n.stat.Mzxid <= seen {
			return false, nil
		}
		seen = n.stat.Mzxid
		if err := s.learn(n.data, n.stat); err != nil {
			s.c.log.Warn("ignored a value", "path", s.path, "error", err)
			return false, nil
		}
		value, _ := s.decode(n.data)
		s.mu.Lock()
		listeners := slices.Clone(s.listeners)
		s.mu.Unlock()
		for _, changed := range listeners {
			changed(Versioned[T]{value, n.stat.Version})
		}
		return false, nil
	})
	if s.ctx.Err() == nil {
		s.c.log.Warn("watches no more", "path", s.path, "error", err)
	}
}
