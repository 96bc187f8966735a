package zklatch

import (
	"context"
	"errors"
	"fmt"
)

// itemLock is the lock of one item in work: an ephemeral node with the item's name.
type itemLock struct {
	q       *DistributedQueue
	path    string
	id      string // its data, by which it is recognised
	session int64
}

// lock locks an item, if no other consumer has.
func (q *DistributedQueue) lock(name string) (l itemLock, got bool, err error) {
	c := q.items.c
	l = itemLock{q: q, path: q.locks.path(name), id: c.id()}
	missing := false
	for tries := c.retries(); ; {
		_, err := c.tree.Create(q.ctx, l.path, []byte(l.id), Ephemeral)
		switch {
		case errors.Is(err, ErrNoNode):
			if err := q.locks.createDir(q.ctx, &missing, tries); err != nil {
				return l, false, err
			}
			continue
		case err != nil && !errors.Is(err, ErrNodeExists) && !retryable(err):
			l.release() // if ctx has ended, it may have been created
			return l, false, err
		}
		// Whatever the answer: it is locked here if the node has this id, and by the
		// session that owns it.
		failed := err
		data, stat, err := c.get(q.ctx, l.path)
		switch {
		case err == nil && string(data) != l.id:
			return l, false, nil
		case err == nil && c.alive(place{session: stat.Owner}):
			l.session = stat.Owner
			return l, true, nil
		case err == nil: // it ends with the last session
			l.release()
			failed = fmt.Errorf("%s: %w", l.path, ErrSessionExpired)
		case !errors.Is(err, ErrNoNode):
			l.release() // it may have been created
			return l, false, err
		case errors.Is(failed, ErrNodeExists):
			return l, false, nil // unlocked meanwhile, which the watch on the locks reports
		case failed == nil:
			failed = fmt.Errorf("%s: %w", l.path, ErrSessionExpired)
		}
		if err := tries.next(q.ctx, failed); err != nil {
			l.release()
			return l, false, err
		}
	}
}

// after returns a context for what follows on Consume: a second after Close.
func (l itemLock) after() (context.Context, context.CancelFunc) {
	if l.q.ctx.Err() == nil {
		return context.WithCancel(l.q.ctx)
	}
	return lastRequests(l.q.ctx)
}

// release deletes the node, in the background if that fails at first.
func (l itemLock) release() {
	ctx, cancel := l.after()
	defer cancel()
	if err := l.delete(ctx); err != nil {
		c := l.q.items.c
		c.background(func() {
			c.retry("delete "+l.path, func() error { return l.delete(c.ctx) })
		})
	}
}

// delete deletes the node if it is still this lock's: after the session has ended,
// another consumer may have a node of the same name.
func (l itemLock) delete(ctx context.Context) error {
	data, _, err := l.q.items.c.tree.Get(ctx, l.path)
	if err == nil && string(data) == l.id {
		err = l.q.items.c.tree.Delete(ctx, l.path, AnyVersion)
	}
	if errors.Is(err, ErrNoNode) {
		return nil
	}
	return err
}
