package zklatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// items is a node with numbered, persistent children: the items of a distributed queue,
// in the order of their numbers. Any goroutine may use it.
//
// The node itself is persistent, only its parents are containers: in a container that
// was deleted and created again the numbers begin again, and the late deletion of an
// item that was taken would delete a new one of the same name.
type items struct {
	c      *Client
	dir    string
	prefix string // of the items' names; other nodes are ignored
	watch  watch  // on the children
}

func (q *items) path(name string) string { return q.dir + "/" + name }

// ensure creates the node and its missing parents.
func (q *items) ensure(ctx context.Context) error {
	return q.c.callWithRetry(ctx, func() error {
		if at := strings.LastIndexByte(q.dir, '/'); at > 0 {
			if err := q.c.makeContainers(ctx, q.dir[:at]); err != nil {
				return err
			}
		}
		_, err := q.c.tree.Create(ctx, q.dir, nil, Persistent)
		if errors.Is(err, ErrNodeExists) {
			return nil
		}
		return err
	})
}

// createDir creates dir after a request has returned ErrNoNode. After the first time,
// each is a retry.
func (q *items) createDir(ctx context.Context, missing *bool, tries *retries) error {
	if *missing {
		if err := tries.next(ctx, fmt.Errorf("%s: %w", q.dir, ErrNoNode)); err != nil {
			return err
		}
	}
	*missing = true
	if err := q.ensure(ctx); !errors.Is(err, ErrNoNode) { // a container above was deleted meanwhile
		return err
	}
	return nil
}

// put adds an item at the end. After ErrConnectionLost it may have been added; the
// request is not repeated, because an item cannot be recognised once it was taken.
func (q *items) put(ctx context.Context, data []byte) error {
	missing := false
	for tries := q.c.retries(); ; {
		_, err := q.c.tree.Create(ctx, q.path(q.prefix), data, PersistentNumbered)
		switch {
		case errors.Is(err, ErrNoNode):
			err = q.createDir(ctx, &missing, tries)
		case errors.Is(err, ErrSessionExpired): // nothing was created
			err = tries.next(ctx, err)
		default:
			return err
		}
		if err != nil {
			return err
		}
	}
}

// list returns the names of the items in order, and a watch that reports when there
// are others.
func (q *items) list(ctx context.Context) (names []string, watch <-chan Event, err error) {
	missing := false
	for tries := q.c.retries(); ; {
		err := q.c.callWithRetry(ctx, func() (err error) {
			names, watch, err = q.read(ctx)
			return err
		})
		if errors.Is(err, ErrNoNode) {
			err = q.createDir(ctx, &missing, tries)
			if err == nil {
				continue
			}
		}
		if err != nil {
			return nil, nil, err
		}
		names = slices.DeleteFunc(names, func(name string) bool { return !strings.HasPrefix(name, q.prefix) })
		slices.SortFunc(names, func(a, b string) int { return cmp.Compare(numberOf(a), numberOf(b)) })
		return names, watch, nil
	}
}

// read lists the node, and sets a watch only if the last one has fired.
func (q *items) read(ctx context.Context) ([]string, <-chan Event, error) {
	if events := q.watch.pending(); events != nil {
		names, err := q.c.tree.Children(ctx, q.dir)
		return names, events, err
	}
	names, events, err := q.c.tree.ChildrenW(ctx, q.dir)
	if err == nil {
		q.watch.keep(events)
	}
	return names, events, err
}

// get reads an item. It returns ErrNoNode if it was taken.
func (q *items) get(ctx context.Context, name string) ([]byte, error) {
	data, err := q.c.get(ctx, q.path(name))
	return data, err
}

// take removes an item, and reports whether this call has removed it. If an answer was
// lost and the item is gone then, it may have been this call: take returns
// ErrConnectionLost.
func (q *items) take(ctx context.Context, name string) (bool, error) {
	lost := false
	for tries := q.c.retries(); ; {
		err := q.c.tree.Delete(ctx, q.path(name), AnyVersion)
		switch {
		case err == nil:
			return true, nil
		case errors.Is(err, ErrNoNode) && lost:
			return false, fmt.Errorf("take %s: it may have been removed for no client: %w", q.path(name), ErrConnectionLost)
		case errors.Is(err, ErrNoNode):
			return false, nil
		case !retryable(err):
			return false, err
		}
		lost = lost || errors.Is(err, ErrConnectionLost)
		if err := tries.next(ctx, err); err != nil {
			return false, err
		}
	}
}
