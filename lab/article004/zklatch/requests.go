package zklatch

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"
)

var (
	ErrNoNode         = zk.ErrNoNode         // there is no such node
	ErrNodeExists     = zk.ErrNodeExists     // there is a node of that name already
	ErrSessionExpired = zk.ErrSessionExpired // the session has ended, and with it its nodes and watches; the request was not executed

	// ErrConnectionLost is returned if there was no answer. The outcome is unknown: the
	// request may have been executed.
	ErrConnectionLost = errors.New("connection lost")
	// ErrClosed is returned after Close.
	ErrClosed = errors.New("client is closed")
)

// AnyVersion matches every version of a node.
const AnyVersion = -1

// lost reports whether a request was not answered, or its session has ended: with the next
// connection or session it may succeed.
func lost(err error) bool {
	return errors.Is(err, ErrConnectionLost) || errors.Is(err, ErrSessionExpired)
}

// untilAnswered repeats a request that may be executed twice until it is answered. Each
// try waits for a connection until its context ends.
func untilAnswered(request func() error) error {
	for {
		if err := request(); !lost(err) {
			return err
		}
	}
}

// reply is what the library's calls return.
type reply struct {
	path   string
	data   []byte
	names  []string
	stat   *zk.Stat
	events <-chan zk.Event
}

// call waits for a connection until ctx ends, and makes one of the library's calls, which
// take no context: if ctx ends first, the library's call continues until it is answered,
// or until Close.
func (c *Client) call(ctx context.Context, request func(r *reply) error) (reply, error) {
	for {
		c.mu.Lock()
		if c.closed {
			c.mu.Unlock()
			return reply{}, ErrClosed
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
			return reply{}, ctx.Err()
		}
	}
	c.requests.Add(1)
	var r reply
	answered := make(chan error, 1) // so that the goroutine ends if ctx has ended
	sent := time.Now()
	c.group.Go(func() {
		err := request(&r)
		c.answered(sent, err)
		answered <- err
	})
	c.mu.Unlock()
	select {
	case err := <-answered:
		lost := func(of error) bool { return errors.Is(err, of) }
		if slices.ContainsFunc([]error{zk.ErrConnectionClosed, zk.ErrNoServer, zk.ErrSessionMoved, zk.ErrClosing}, lost) {
			err = ErrConnectionLost
		}
		return r, err
	case <-ctx.Done():
		return reply{}, ctx.Err()
	}
}

// Create creates a node without access restrictions and returns its path. kind is one of
// the library's flags; a sequential node has ten digits appended.
func (c *Client) Create(ctx context.Context, path string, data []byte, kind int32) (string, error) {
	r, err := c.call(ctx, func(r *reply) (err error) {
		create := c.zk.Create
		if kind == zk.FlagContainer {
			create = c.zk.CreateContainer
		}
		r.path, err = create(path, data, kind, zk.WorldACL(zk.PermAll))
		return err
	})
	return r.path, err
}

// Delete deletes a node if it has that version, or any version with AnyVersion.
func (c *Client) Delete(ctx context.Context, path string, version int32) error {
	_, err := c.call(ctx, func(*reply) error { return c.zk.Delete(path, version) })
	return err
}

// Get reads a node.
func (c *Client) Get(ctx context.Context, path string) ([]byte, *zk.Stat, error) {
	r, err := c.call(ctx, func(r *reply) (err error) {
		r.data, r.stat, err = c.zk.Get(path)
		return err
	})
	return r.data, r.stat, err
}

// GetW reads a node and watches it: the channel receives one event when the node is
// written or deleted, or when the session has expired. If there is no such node, no watch
// is set. A watch may miss a change while the connection is replaced: when Session.Link
// has changed, read and watch again.
func (c *Client) GetW(ctx context.Context, path string) ([]byte, *zk.Stat, <-chan zk.Event, error) {
	r, err := c.call(ctx, func(r *reply) (err error) {
		r.data, r.stat, r.events, err = c.zk.GetW(path)
		return err
	})
	return r.data, r.stat, r.events, err
}

// Set writes a node if it has that version.
func (c *Client) Set(ctx context.Context, path string, data []byte, version int32) (*zk.Stat, error) {
	r, err := c.call(ctx, func(r *reply) (err error) {
		r.stat, err = c.zk.Set(path, data, version)
		return err
	})
	return r.stat, err
}

// Children lists the names under a node, in no order.
func (c *Client) Children(ctx context.Context, path string) ([]string, error) {
	r, err := c.call(ctx, func(r *reply) (err error) {
		r.names, _, err = c.zk.Children(path)
		return err
	})
	return r.names, err
}

// ChildrenW is Children with a watch, as that of GetW: its event comes when a name is
// added or removed.
func (c *Client) ChildrenW(ctx context.Context, path string) ([]string, <-chan zk.Event, error) {
	r, err := c.call(ctx, func(r *reply) (err error) {
		r.names, _, r.events, err = c.zk.ChildrenW(path)
		return err
	})
	return r.names, r.events, err
}
