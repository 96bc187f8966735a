package zklatch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"
)

// call waits for a connection and makes one of the library's calls, which take no
// context: if ctx ends first, the library's call continues until it is answered, or
// until Close.
func call[T any](ctx context.Context, c *Conn, request func() (T, error)) (T, error) {
	var none T
	for {
		c.mu.Lock()
		if c.closed {
			c.mu.Unlock()
			return none, ErrClosed
		}
		if c.session.Connected() {
			break
		}
		changed := c.changed
		c.mu.Unlock()
		select {
		case <-changed:
		case <-c.ctx.Done():
		case <-ctx.Done():
			return none, ctx.Err()
		}
	}
	type result struct {
		value T
		err   error
	}
	c.requests.Add(1)
	results := make(chan result, 1) // so that the goroutine ends if ctx has ended
	sent := time.Now()
	c.group.Go(func() {
		value, err := request()
		c.answered(sent, err)
		results <- result{value, translate(err)}
	})
	c.mu.Unlock()
	select {
	case r := <-results:
		return r.value, r.err
	case <-ctx.Done():
		return none, ctx.Err()
	}
}

// translate returns this package's error for one of the library's.
func translate(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, zk.ErrNoNode):
		return ErrNoNode
	case errors.Is(err, zk.ErrNodeExists):
		return ErrNodeExists
	case errors.Is(err, zk.ErrBadVersion):
		return ErrBadVersion
	case errors.Is(err, zk.ErrSessionExpired):
		return ErrSessionExpired
	case errors.Is(err, zk.ErrConnectionClosed), errors.Is(err, zk.ErrNoServer), errors.Is(err, zk.ErrSessionMoved), errors.Is(err, zk.ErrClosing):
		return ErrConnectionLost
	}
	return err
}

// stat returns this package's Stat for the library's.
func stat(s *zk.Stat) Stat {
	if s == nil {
		return Stat{}
	}
	return Stat{Version: s.Version, Owner: s.EphemeralOwner}
}

// flags are the library's flags of each kind.
var flags = map[Kind]int32{
	Persistent: zk.FlagPersistent, Ephemeral: zk.FlagEphemeral,
	EphemeralNumbered: zk.FlagEphemeralSequential, PersistentNumbered: zk.FlagSequence,
}

// Create creates a node without access restrictions.
func (c *Conn) Create(ctx context.Context, path string, data []byte, kind Kind) (string, error) {
	return call(ctx, c, func() (string, error) {
		if kind == Container {
			return c.zk.CreateContainer(path, data, zk.FlagContainer, zk.WorldACL(zk.PermAll))
		}
		return c.zk.Create(path, data, flags[kind], zk.WorldACL(zk.PermAll))
	})
}

// Delete removes a node.
func (c *Conn) Delete(ctx context.Context, path string, version int32) error {
	_, err := call(ctx, c, func() (struct{}, error) { return struct{}{}, c.zk.Delete(path, version) })
	return err
}

// read is what Get and GetW return, and, with names, ChildrenW.
type read struct {
	data   []byte
	names  []string
	stat   Stat
	events <-chan Event
}

// Get reads a node.
func (c *Conn) Get(ctx context.Context, path string) ([]byte, Stat, error) {
	r, err := call(ctx, c, func() (read, error) {
		data, s, err := c.zk.Get(path)
		return read{data: data, stat: stat(s)}, err
	})
	return r.data, r.stat, err
}

// GetW reads a node and watches it.
func (c *Conn) GetW(ctx context.Context, path string) ([]byte, Stat, <-chan Event, error) {
	r, err := call(ctx, c, func() (read, error) {
		data, s, events, err := c.zk.GetW(path)
		if err != nil {
			return read{}, err
		}
		return read{data: data, stat: stat(s), events: c.watch(path, events)}, nil
	})
	return r.data, r.stat, r.events, err
}

// watch passes the event of one of the library's watches on.
func (c *Conn) watch(path string, events <-chan zk.Event) <-chan Event {
	out := make(chan Event, 1)
	c.group.Go(func() {
		defer close(out)
		e := <-events // the library sends each watch one event, at the latest when the session ends
		out <- Event{Type: eventTypes[e.Type], Path: path}
	})
	return out
}

// eventTypes are this package's types for the library's; any other is NotWatching.
var eventTypes = map[zk.EventType]EventType{
	zk.EventNodeDeleted: NodeDeleted, zk.EventNodeDataChanged: NodeChanged, zk.EventNodeChildrenChanged: ChildrenChanged,
}

// Set writes a node.
func (c *Conn) Set(ctx context.Context, path string, data []byte, version int32) (Stat, error) {
	return call(ctx, c, func() (Stat, error) {
		s, err := c.zk.Set(path, data, version)
		return stat(s), err
	})
}

// SetIf writes a node if another one exists.
func (c *Conn) SetIf(ctx context.Context, path string, data []byte, version int32, fence string) (Stat, error) {
	return call(ctx, c, func() (Stat, error) {
		results, err := c.zk.Multi(&zk.CheckVersionRequest{Path: fence, Version: AnyVersion},
			&zk.SetDataRequest{Path: path, Data: data, Version: version})
		if err != nil {
			return Stat{}, err
		}
		if len(results) != 2 {
			return Stat{}, fmt.Errorf("a transaction of 2 steps has %d results", len(results))
		}
		return stat(results[1].Stat), nil
	})
}

// Children lists the names under a node.
func (c *Conn) Children(ctx context.Context, path string) ([]string, error) {
	return call(ctx, c, func() ([]string, error) {
		names, _, err := c.zk.Children(path)
		return names, err
	})
}

// ChildrenW lists the names under a node and watches them.
func (c *Conn) ChildrenW(ctx context.Context, path string) ([]string, <-chan Event, error) {
	r, err := call(ctx, c, func() (read, error) {
		names, _, events, err := c.zk.ChildrenW(path)
		if err != nil {
			return read{}, err
		}
		return read{names: names, events: c.watch(path, events)}, nil
	})
	return r.names, r.events, err
}
