package zklatch

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ErrQueueEmpty is returned if a queue has no item (NoSuchElementException in Curator).
var ErrQueueEmpty = errors.New("the queue is empty")

// SimpleDistributedQueue is a queue from which each item is taken at most once (the
// distributed queue that article 004 names; Curator's class of this name, with the same
// nodes). Items are taken in the order in which they were added. Any goroutine may use
// it.
type SimpleDistributedQueue struct {
	items items
}

// SimpleDistributedQueue returns a handle of the queue at a path.
func (c *Client) SimpleDistributedQueue(path string) *SimpleDistributedQueue {
	return &SimpleDistributedQueue{items: items{c: c, dir: path, prefix: "qn-"}}
}

// Offer adds an item at the end. After ErrConnectionLost it may have been added: the
// request is not repeated, because that could add the item twice.
func (q *SimpleDistributedQueue) Offer(ctx context.Context, item []byte) error {
	if err := q.items.put(ctx, item); err != nil {
		return fmt.Errorf("offer to %s: %w", q.items.dir, err)
	}
	return nil
}

// Peek returns the first item and leaves it in the queue (peek and element in Curator).
// It returns ErrQueueEmpty if there is none.
func (q *SimpleDistributedQueue) Peek(ctx context.Context) ([]byte, error) {
	names, _, err := q.items.list(ctx)
	if err != nil {
		return nil, fmt.Errorf("peek at %s: %w", q.items.dir, err)
	}
	for _, name := range names {
		item, err := q.items.get(ctx, name)
		if errors.Is(err, ErrNoNode) {
			continue // taken meanwhile
		}
		if err != nil {
			return nil, fmt.Errorf("peek at %s: %w", q.items.dir, err)
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
		names, watch, err := q.items.list(ctx)
		if err != nil {
			return nil, fmt.Errorf("poll %s: %w", q.items.dir, err)
		}
		for _, name := range names {
			item, err := q.items.get(ctx, name)
			mine := false
			if err == nil {
				mine, err = q.items.take(ctx, name)
			}
			switch {
			case errors.Is(err, ErrNoNode): // taken by another client
			case err != nil:
				return nil, fmt.Errorf("poll %s: %w", q.items.dir, err)
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
