package zklatch

import (
	"context"
	"errors"
	"sync"
	"time"
)

// What the recipes share: reading, watching and creating nodes, and time limits.

// get reads a node.
func (c *Client) get(ctx context.Context, path string) (data []byte, stat Stat, err error) {
	err = c.callWithRetry(ctx, func() (err error) {
		data, stat, err = c.tree.Get(ctx, path)
		return err
	})
	return data, stat, err
}

// persist creates a persistent node, and its parents, if there is none.
func (c *Client) persist(ctx context.Context, path string, data []byte) error {
	err := c.createNode(ctx, path, data, Persistent, c.callWithRetry)
	if errors.Is(err, ErrNodeExists) {
		return nil
	}
	return err
}

// A watch is used until it has fired: each one that is not needed any more would stay
// until the node's next change. The zero value is none. Any goroutine may use it.
type watch struct {
	mu     sync.Mutex   // guards the field below
	events <-chan Event // nil before the first watch; it may have fired
}

// pending returns the watch that was set last, or nil if it has fired.
func (w *watch) pending() <-chan Event {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case <-w.events: // it is closed then, so that others that wait for it return as well
		w.events = nil
	default:
	}
	return w.events
}

// keep keeps a watch that was set.
func (w *watch) keep(events <-chan Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = events
}

// fired forgets the watch whose event was received, unless another was set meanwhile.
// Its channel may not be closed yet, and would wake the waiter a second time.
func (w *watch) fired(events <-chan Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.events == events {
		w.events = nil
	}
}

// node is a node as it was read; exists is false if there was none.
type node struct {
	data   []byte
	stat   Stat
	exists bool
}

// watched is a watch on a node that changes with the queue. One goroutine uses it.
type watched struct {
	path  string
	watch watch
}

// on returns the watch on the node at path, none if another node was watched.
func (w *watched) on(path string) *watch {
	if w.path != path {
		w.path = path
		w.watch.keep(nil)
	}
	return &w.watch
}

// read reads a node once, and sets a watch only if the last one has fired.
func (c *Client) read(ctx context.Context, path string, w *watch) (data []byte, stat Stat, events <-chan Event, err error) {
	if events = w.pending(); events != nil {
		data, stat, err = c.tree.Get(ctx, path)
		return data, stat, events, err
	}
	if data, stat, events, err = c.tree.GetW(ctx, path); err == nil {
		w.keep(events)
	}
	return data, stat, events, err
}

// observe reads a node, and sets a watch only if the last one has fired. Without a node
// it returns no watch.
func (c *Client) observe(ctx context.Context, path string, w *watch) (n node, events <-chan Event, err error) {
	err = c.callWithRetry(ctx, func() (err error) {
		n.data, n.stat, events, err = c.read(ctx, path, w)
		return err
	})
	if errors.Is(err, ErrNoNode) {
		return node{}, nil, nil
	}
	n.exists = err == nil
	return n, events, err
}

// follow reads a node and calls see, and does so again after each event and each change
// of the connection, until see reports done, or ctx ends. A node that does not exist
// cannot be watched: unless see reports done then, it must have created the node. The
// Client's policy limits how often in a row a read fails. A later call with the same
// watch uses it if it is still set.
func (c *Client) follow(ctx context.Context, path string, w *watch, see func(node) (done bool, err error)) error {
	for {
		_, changed := c.tree.Session()
		n, events, err := c.observe(ctx, path, w)
		if err != nil {
			return err
		}
		if done, err := see(n); done || err != nil {
			return err
		}
		if events == nil {
			continue
		}
		select {
		case <-events:
			w.fired(events)
			c.woken.Add(1)
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// within calls act with a time limit. It returns false if the limit has ended it, and
// nothing else has failed: an act that could not undo what it had done has joined that
// error.
func within(ctx context.Context, limit time.Duration, act func(context.Context) error) (bool, error) {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := act(limited)
	if ctx.Err() == nil && limited.Err() != nil && innermost(err) == limited.Err() { //nolint:errorlint // errors.Is also finds it among joined errors
		return false, nil
	}
	return err == nil, err
}

// innermost unwraps an error as far as it wraps only one.
func innermost(err error) error {
	for {
		next := errors.Unwrap(err)
		if next == nil {
			return err
		}
		err = next
	}
}

// lastRequests returns a context for what is still to be undone after ctx has ended: a
// second.
func lastRequests(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), time.Second)
}
