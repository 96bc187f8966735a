package zklatch

import (
	"context"
	"errors"
	"sync"
)

// What the recipes share: creating, reading and watching nodes.

// makePath creates the missing nodes of a path. It returns ErrNoNode if a container
// above was deleted meanwhile. (Containers: creatingParentContainersIfNeeded in article
// 004. The servers delete one when nothing is left in it.)
func (c *Client) makePath(ctx context.Context, path string, kind Kind) error {
	for at := 1; at <= len(path); at++ {
		if at < len(path) && path[at] != '/' {
			continue
		}
		err := untilAnswered(func() error {
			_, err := c.tree.Create(ctx, path[:at], nil, kind)
			return err
		})
		if err != nil && !errors.Is(err, ErrNodeExists) {
			return err
		}
	}
	return nil
}

// watch is the last watch that was set. It is used until it has fired, or the connection
// has changed: each one that is not needed any more would stay until the node's next
// change. The zero value is none. Any goroutine may use it.
type watch struct {
	mu     sync.Mutex // guards the fields below
	path   string
	link   uint64       // the connection on which it was set
	events <-chan Event // nil if it has fired
}

// read reads a node, with set if it must be watched and with get if it is already.
func (w *watch) read(c *Client, path string, get func() error, set func() (<-chan Event, error)) (<-chan Event, error) {
	s, _ := c.tree.Session()
	w.mu.Lock()
	events := w.events
	if w.path != path || w.link != s.Link {
		events = nil
	}
	w.mu.Unlock()
	if events != nil {
		return events, get()
	}
	events, err := set()
	if err == nil {
		w.mu.Lock()
		w.path, w.link, w.events = path, s.Link, events
		w.mu.Unlock()
	}
	return events, err
}

// fired forgets a watch whose event was received, unless another was set meanwhile.
func (w *watch) fired(events <-chan Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.events == events {
		w.events = nil
	}
}

// read reads a node once, and watches it.
func (c *Client) read(ctx context.Context, path string, w *watch) (data []byte, events <-chan Event, err error) {
	events, err = w.read(c, path, func() (err error) {
		data, _, err = c.tree.Get(ctx, path)
		return err
	}, func() (events <-chan Event, err error) {
		data, _, events, err = c.tree.GetW(ctx, path)
		return events, err
	})
	return data, events, err
}
