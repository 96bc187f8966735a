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

// Offer adds an item at the end. After ErrConnectionLost it may have been added: the
// request is not repeated, because that could add the item twice.
func (q *SimpleDistributedQueue) Offer(ctx context.Context, item []byte) error {
	for {
		_, err := q.c.tree.Create(ctx, q.dir+"/"+itemPrefix, item, PersistentNumbered)
		switch {
		case errors.Is(err, ErrNoNode):
			err = q.open(ctx)
		case errors.Is(err, ErrSessionExpired): // nothing was created
			continue
		case err == nil:
			return nil
		}
		if err != nil {
			return fmt.Errorf("offer to %s: %w", q.dir, err)
		}
	}
}

// Peek returns the first item and leaves it in the queue (peek and element in Curator).
// It returns ErrQueueEmpty if there is none.
func (q *SimpleDistributedQueue) Peek(ctx context.Context) ([]byte, error) {
	item, _, err := q.first(ctx, func(string) error { return nil })
	if err != nil {
		return nil, fmt.Errorf("peek at %s: %w", q.dir, err)
	}
	return item, nil
}

// Poll takes the first item (poll and remove in Curator). It waits for one as long as
// limit, then it returns ErrQueueEmpty; with a limit of 0 at once. The limit does not
// end a request: see Take.
func (q *SimpleDistributedQueue) Poll(ctx context.Context, limit time.Duration) ([]byte, error) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	return q.take(ctx, timer.C)
}

// Take waits for an item and takes it. If it returns ErrConnectionLost, or the error of
// a ctx that ended while an item was being removed, that item may be lost.
func (q *SimpleDistributedQueue) Take(ctx context.Context) ([]byte, error) {
	return q.take(ctx, nil)
}

func (q *SimpleDistributedQueue) take(ctx context.Context, late <-chan time.Time) ([]byte, error) {
	for {
		_, changed := q.c.tree.Session()
		item, events, err := q.first(ctx, func(path string) error { return q.c.tree.Delete(ctx, path, AnyVersion) })
		if err == nil {
			return item, nil
		}
		if !errors.Is(err, ErrQueueEmpty) {
			return nil, fmt.Errorf("take from %s: %w", q.dir, err)
		}
		select {
		case <-events:
			q.watch.fired(events)
		case <-changed: // an event may have been missed
		case <-late:
			return nil, err
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// first returns the first item for which use does not return ErrNoNode. If there is none,
// it returns ErrQueueEmpty, and a watch that reports when there are others.
func (q *SimpleDistributedQueue) first(ctx context.Context, use func(path string) error) (item []byte, events <-chan Event, err error) {
	var names []string
	err = untilAnswered(func() (err error) {
		events, err = q.watch.read(q.c, q.dir, func() (err error) {
			names, err = q.c.tree.Children(ctx, q.dir)
			return err
		}, func() (events <-chan Event, err error) {
			names, events, err = q.c.tree.ChildrenW(ctx, q.dir)
			return events, err
		})
		return err
	})
	if errors.Is(err, ErrNoNode) {
		if err = q.open(ctx); err == nil {
			return q.first(ctx, use)
		}
	}
	if err != nil {
		return nil, nil, err
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Compare(numberOf(a), numberOf(b)) })
	for _, name := range names {
		if !strings.HasPrefix(name, itemPrefix) {
			continue
		}
		path := q.dir + "/" + name
		err := untilAnswered(func() (err error) {
			item, _, err = q.c.tree.Get(ctx, path)
			return err
		})
		if err == nil {
			err = use(path)
		}
		if !errors.Is(err, ErrNoNode) { // taken by another client
			return item, nil, err
		}
	}
	return nil, events, ErrQueueEmpty
}

// open creates the queue's node, and containers above it, if it is missing.
func (q *SimpleDistributedQueue) open(ctx context.Context) error {
	for {
		err := untilAnswered(func() error {
			_, err := q.c.tree.Create(ctx, q.dir, nil, Persistent)
			return err
		})
		switch {
		case err == nil || errors.Is(err, ErrNodeExists):
			return nil
		case !errors.Is(err, ErrNoNode):
			return err
		}
		above := q.dir[:strings.LastIndexByte(q.dir, '/')]
		if err := q.c.makePath(ctx, above, Container); err != nil && !errors.Is(err, ErrNoNode) {
			return err
		}
	}
}
