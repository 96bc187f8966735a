package zklatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// ErrQueueEmpty is returned if a queue has no item (NoSuchElementException in Curator).
var ErrQueueEmpty = errors.New("the queue is empty")

// SimpleDistributedQueue is a queue from which each item is taken at most once (the
// distributed queue that article 004 names; Curator's class of this name, with the same
// nodes). Items are taken in the order in which they were added. Any goroutine may use
// it.
//
// The items are numbered, persistent children of the queue's node. That node itself is
// persistent, only its parents are containers: in a container that was deleted and
// created again the numbers begin again, and the late deletion of an item that was taken
// would delete a new one of the same name.
type SimpleDistributedQueue struct {
	c     *Client
	dir   string
	watch watch // on the children
}

// itemPrefix begins the items' names; other nodes are ignored.
const itemPrefix = "qn-"

// SimpleDistributedQueue returns a handle of the queue at a path.
func (c *Client) SimpleDistributedQueue(path string) *SimpleDistributedQueue {
	return &SimpleDistributedQueue{c: c, dir: path}
}

func (q *SimpleDistributedQueue) path(name string) string { return q.dir + "/" + name }

// Offer adds an item at the end. After ErrConnectionLost it may have been added: the
// request is not repeated, because that could add the item twice.
func (q *SimpleDistributedQueue) Offer(ctx context.Context, item []byte) error {
	if err := q.put(ctx, item); err != nil {
		return fmt.Errorf("offer to %s: %w", q.dir, err)
	}
	return nil
}

// Peek returns the first item and leaves it in the queue (peek and element in Curator).
// It returns ErrQueueEmpty if there is none.
func (q *SimpleDistributedQueue) Peek(ctx context.Context) ([]byte, error) {
	names, _, err := q.list(ctx)
	if err != nil {
		return nil, fmt.Errorf("peek at %s: %w", q.dir, err)
	}
	for _, name := range names {
		item, err := q.c.get(ctx, q.path(name))
		if errors.Is(err, ErrNoNode) {
			continue // taken meanwhile
		}
		if err != nil {
			return nil, fmt.Errorf("peek at %s: %w", q.dir, err)
		}
		return item, nil
	}
	return nil, ErrQueueEmpty
}

// Poll takes the first item (poll and remove in Curator). It waits for one as long as
// limit, then it returns ErrQueueEmpty; with a limit of 0 at once. The limit does not
// end a request: see Take.
func (q *SimpleDistributedQueue) Poll(ctx context.Context, limit time.Duration) ([]byte, error) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	return q.poll(ctx, timer.C)
}

// Take waits for an item and takes it. If it returns ErrConnectionLost, or the error of
// a ctx that ended while an item was being removed, that item may be lost.
func (q *SimpleDistributedQueue) Take(ctx context.Context) ([]byte, error) {
	return q.poll(ctx, nil)
}

func (q *SimpleDistributedQueue) poll(ctx context.Context, late <-chan time.Time) ([]byte, error) {
	for {
		names, watch, err := q.list(ctx)
		if err != nil {
			return nil, fmt.Errorf("poll %s: %w", q.dir, err)
		}
		for _, name := range names {
			item, err := q.c.get(ctx, q.path(name))
			mine := false
			if err == nil {
				mine, err = q.remove(ctx, name)
			}
			switch {
			case errors.Is(err, ErrNoNode): // taken by another client
			case err != nil:
				return nil, fmt.Errorf("poll %s: %w", q.dir, err)
			case mine:
				return item, nil
			}
		}
		select {
		case <-watch:
		case <-late:
			return nil, ErrQueueEmpty
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// ensure creates the node and its missing parents.
func (q *SimpleDistributedQueue) ensure(ctx context.Context) error {
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
func (q *SimpleDistributedQueue) createDir(ctx context.Context, missing *bool, tries *retries) error {
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
func (q *SimpleDistributedQueue) put(ctx context.Context, data []byte) error {
	missing := false
	for tries := q.c.retries(); ; {
		_, err := q.c.tree.Create(ctx, q.path(itemPrefix), data, PersistentNumbered)
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
func (q *SimpleDistributedQueue) list(ctx context.Context) (names []string, watch <-chan Event, err error) {
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
		names = slices.DeleteFunc(names, func(name string) bool { return !strings.HasPrefix(name, itemPrefix) })
		slices.SortFunc(names, func(a, b string) int { return cmp.Compare(numberOf(a), numberOf(b)) })
		return names, watch, nil
	}
}

// read lists the node, and sets a watch only if the last one has fired.
func (q *SimpleDistributedQueue) read(ctx context.Context) ([]string, <-chan Event, error) {
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

// remove removes an item, and reports whether this call has removed it. If an answer was
// lost and the item is gone then, it may have been this call: remove returns
// ErrConnectionLost.
func (q *SimpleDistributedQueue) remove(ctx context.Context, name string) (bool, error) {
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
