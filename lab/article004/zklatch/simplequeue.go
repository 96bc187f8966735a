package zklatch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-zookeeper/zk"
)

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
	c   *Client
	dir string
}

// itemPrefix begins the items' names; other nodes are ignored.
const itemPrefix = "qn-"

// SimpleDistributedQueue returns a handle of the queue at a path.
func (c *Client) SimpleDistributedQueue(path string) *SimpleDistributedQueue {
	return &SimpleDistributedQueue{c, path}
}

// Offer adds an item at the end. After ErrConnectionLost it may have been added: the
// request is not repeated, because that could add the item twice.
func (q *SimpleDistributedQueue) Offer(ctx context.Context, item []byte) error {
	for {
		_, err := q.c.Create(ctx, q.dir+"/"+itemPrefix, item, zk.FlagSequence)
		switch {
		case errors.Is(err, ErrNoNode):
			if err = q.open(ctx); err != nil {
				return err
			}
		case errors.Is(err, ErrSessionExpired): // nothing was created
		case err != nil:
			return fmt.Errorf("offer to %s: %w", q.dir, err)
		default:
			return nil
		}
	}
}

// Take waits for an item and takes the first one. If it returns ErrConnectionLost, or the error of
// a ctx that ended while an item was being removed, that item may be lost.
func (q *SimpleDistributedQueue) Take(ctx context.Context) ([]byte, error) {
	for {
		_, changed := q.c.Session()
		names, events, err := q.c.ChildrenW(ctx, q.dir)
		switch {
		case errors.Is(err, ErrNoNode):
			if err := q.open(ctx); err != nil {
				return nil, err
			}
			continue
		case lost(err):
			continue
		case err != nil:
			return nil, fmt.Errorf("take from %s: %w", q.dir, err)
		}
		if item, found, err := q.first(ctx, names); found || err != nil {
			return item, err
		}
		select {
		case <-events:
		case <-changed: // an event may have been missed
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// first takes the first of the items that no other client has taken meanwhile, if there is
// one.
func (q *SimpleDistributedQueue) first(ctx context.Context, names []string) (item []byte, found bool, err error) {
	slices.SortFunc(names, byNumber)
	for _, name := range names {
		if !strings.HasPrefix(name, itemPrefix) {
			continue
		}
		path := q.dir + "/" + name
		err := untilAnswered(func() (err error) {
			item, _, err = q.c.Get(ctx, path)
			return err
		})
		if err == nil {
			err = q.c.Delete(ctx, path, AnyVersion)
		}
		switch {
		case err == nil:
			return item, true, nil
		case !errors.Is(err, ErrNoNode):
			return nil, false, fmt.Errorf("take from %s: %w", q.dir, err)
		}
	}
	return nil, false, nil
}

// open creates the queue's node, if it is missing.
func (q *SimpleDistributedQueue) open(ctx context.Context) error {
	err := q.c.makePath(ctx, q.dir, zk.FlagPersistent)
	if err != nil && !errors.Is(err, ErrNoNode) { // a container was deleted meanwhile: the caller tries again
		return fmt.Errorf("open %s: %w", q.dir, err)
	}
	return nil
}
