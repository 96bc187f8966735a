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

// call waits for a connection until ctx ends, and makes one of the library's calls, which
// take no context: if ctx ends first, the library's call continues until it is answered,
// or until Close.
func call[T any](ctx context.Context, c *Client, request func() (T, error)) (result T, err error) {
	for {
		c.mu.Lock()
		if c.closed {
			c.mu.Unlock()
			return result, ErrClosed
		}
		if c.session.Connected() {
			break
		}
		changed := c.changed.Next()
		c.mu.Unlock()
		select {
		case <-changed:
		case <-c.ctx.Done():
		case <-ctx.Done():
			return result, ctx.Err()
		}
	}
	c.requests.Add(1)
	type answer struct {
		result T
		err    error
	}
	answered := make(chan answer, 1) // so that the goroutine ends if ctx has ended
	sent := time.Now()
	c.group.Go(func() {
		r, err := request()
		c.answered(sent, err)
		answered <- answer{r, err}
	})
	c.mu.Unlock()
	select {
	case a := <-answered:
		lost := func(of error) bool { return errors.Is(a.err, of) }
		if slices.ContainsFunc([]error{zk.ErrConnectionClosed, zk.ErrNoServer, zk.ErrSessionMoved, zk.ErrClosing}, lost) {
			a.err = ErrConnectionLost
		}
		return a.result, a.err
	case <-ctx.Done():
		return result, ctx.Err()
	}
}

// node is what a node has, and a watch of it.
type node struct {
	data   []byte
	names  []string // of its children
	stat   *zk.Stat
	events <-chan zk.Event
}

// Create creates a node without access restrictions and returns its path. kind is one of
// the library's flags; a sequential node has ten digits appended.
func (c *Client) Create(ctx context.Context, path string, data []byte, kind int32) (string, error) {
	create := c.zk.Create
	if kind == zk.FlagContainer {
		create = c.zk.CreateContainer
	}
	return call(ctx, c, func() (string, error) { return create(path, data, kind, zk.WorldACL(zk.PermAll)) })
}

// Delete deletes a node if it has that version, or any version with AnyVersion.
func (c *Client) Delete(ctx context.Context, path string, version int32) error {
	_, err := call(ctx, c, func() (node, error) { return node{}, c.zk.Delete(path, version) })
	return err
}

// Get reads a node.
func (c *Client) Get(ctx context.Context, path string) ([]byte, *zk.Stat, error) {
	n, err := call(ctx, c, func() (n node, err error) {
		n.data, n.stat, err = c.zk.Get(path)
		return n, err
	})
	return n.data, n.stat, err
}

// GetW reads a node and watches it: the channel receives one event when the node is
// written or deleted, or when the session has expired. If there is no such node, no watch
// is set. A watch may miss a change while the connection is replaced: when Session.Link
// has changed, read and watch again.
func (c *Client) GetW(ctx context.Context, path string) ([]byte, *zk.Stat, <-chan zk.Event, error) {
	n, err := call(ctx, c, func() (n node, err error) {
		n.data, n.stat, n.events, err = c.zk.GetW(path)
		return n, err
	})
	return n.data, n.stat, n.events, err
}

// Set writes a node if it has that version.
func (c *Client) Set(ctx context.Context, path string, data []byte, version int32) (*zk.Stat, error) {
	return call(ctx, c, func() (*zk.Stat, error) { return c.zk.Set(path, data, version) })
}

// Children lists the names under a node, in no order.
func (c *Client) Children(ctx context.Context, path string) ([]string, error) {
	return call(ctx, c, func() ([]string, error) {
		names, _, err := c.zk.Children(path)
		return names, err
	})
}

// ChildrenW is Children with a watch, as that of GetW: its event comes when a name is
// added or removed.
func (c *Client) ChildrenW(ctx context.Context, path string) ([]string, <-chan zk.Event, error) {
	n, err := call(ctx, c, func() (n node, err error) {
		n.names, _, n.events, err = c.zk.ChildrenW(path)
		return n, err
	})
	return n.names, n.events, err
}
