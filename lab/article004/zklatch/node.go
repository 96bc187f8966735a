package zklatch

import (
	"context"
	"sync"
)

// What the recipes share: reading and watching nodes.

// get reads a node.
func (c *Client) get(ctx context.Context, path string) (data []byte, err error) {
	err = c.callWithRetry(ctx, func() (err error) {
		data, _, err = c.tree.Get(ctx, path)
		return err
	})
	return data, err
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
func (c *Client) read(ctx context.Context, path string, w *watch) (data []byte, events <-chan Event, err error) {
	if events = w.pending(); events != nil {
		data, _, err = c.tree.Get(ctx, path)
		return data, events, err
	}
	if data, _, events, err = c.tree.GetW(ctx, path); err == nil {
		w.keep(events)
	}
	return data, events, err
}
