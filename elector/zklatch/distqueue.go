package zklatch

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// ErrorMode is what happens to an item whose Consume has failed, in a queue with a
// LockPath (ErrorMode in Curator).
type ErrorMode int

// The modes.
const (
	Requeue ErrorMode = iota // it is added again, at the end, without a pause
	Drop                     // it is deleted (DELETE in Curator)
)

// DistributedQueueConfig configures a DistributedQueue. All fields are optional.
type DistributedQueueConfig struct {
	// Consume handles one item (consumeMessage in Curator); one call follows the other.
	// Its context ends with Close, and, with a LockPath, with ErrSuspended when another
	// consumer may be given the item. It must not call Close, which waits for its return.
	// Nil: this handle only puts.
	Consume func(ctx context.Context, item []byte) error
	// LockPath is a node for the locks of the items in work. With it each item is
	// handled at least once: it is locked, handled, and deleted then. Without it each
	// item is handled at most once: it is deleted, and handled then.
	LockPath string
	// OnError is used with a LockPath. Without one, an item whose Consume fails is lost.
	OnError ErrorMode
}

// DistributedQueue is a queue with consumers (the distributed queue that article 004
// names; Curator's class of this name, with the same nodes). One consumer handles the
// items in the order in which they were added.
type DistributedQueue struct {
	cfg   DistributedQueueConfig
	items items
	locks items // of the items in work; unused without a LockPath

	ctx  context.Context // ends with Close
	stop context.CancelFunc
	done chan struct{} // closed when the loop has ended

	mu      sync.Mutex // guards the field below
	started bool
}

// DistributedQueue returns a handle of the queue at a path.
func (c *Client) DistributedQueue(path string, cfg DistributedQueueConfig) *DistributedQueue {
	const prefix = "queue-"
	q := &DistributedQueue{
		cfg:   cfg,
		items: items{c: c, dir: path, prefix: prefix},
		locks: items{c: c, dir: cfg.LockPath, prefix: prefix},
		done:  make(chan struct{}),
	}
	q.ctx, q.stop = context.WithCancel(c.ctx)
	return q
}

// Start begins to consume.
func (q *DistributedQueue) Start() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.started || q.ctx.Err() != nil {
		return ErrStarted
	}
	q.started = true
	go func() { // Close joins it
		defer close(q.done)
		if q.cfg.Consume != nil {
			q.run()
		}
	}()
	return nil
}

// Close ends Consume's context and waits for its return. Without a LockPath, an item
// that is being taken at that moment may be lost.
func (q *DistributedQueue) Close() {
	q.mu.Lock()
	started := q.started
	q.stop()
	q.mu.Unlock()
	if started {
		<-q.done
	}
}

// Put adds an item at the end, and returns when it is stored. After ErrConnectionLost
// it may have been added: the request is not repeated, because that could add the item
// twice.
func (q *DistributedQueue) Put(ctx context.Context, item []byte) error {
	if err := q.items.put(ctx, item); err != nil {
		return fmt.Errorf("put into %s: %w", q.items.dir, err)
	}
	return nil
}

// run handles what is in the queue, and waits for a change (runLoop in Curator).
func (q *DistributedQueue) run() {
	for q.ctx.Err() == nil {
		if err := q.round(); err != nil && q.ctx.Err() == nil {
			q.items.c.pauseAfter(q.ctx, err)
		}
	}
}

// round handles the items that are there, and waits until there may be others: until
// the items have changed, or, if other consumers work on some, their locks.
func (q *DistributedQueue) round() error {
	names, watch, err := q.items.list(q.ctx)
	if err != nil {
		return err
	}
	var unlocked <-chan Event
	if q.cfg.LockPath != "" {
		if _, unlocked, err = q.locks.list(q.ctx); err != nil {
			return err
		}
	}
	others := false
	for _, name := range names {
		if q.ctx.Err() != nil {
			return nil
		}
		locked := false
		if q.cfg.LockPath != "" {
			locked, err = q.handleLocked(name)
		} else {
			err = q.handleTaken(name)
		}
		if err != nil {
			return err
		}
		others = others || locked
	}
	if !others {
		unlocked = nil
	}
	select {
	case <-watch:
	case <-unlocked:
	case <-q.ctx.Done():
	}
	return nil
}

// handleTaken takes an item and handles it: at most once (processNormally in Curator).
func (q *DistributedQueue) handleTaken(name string) error {
	item, err := q.items.get(q.ctx, name)
	if errors.Is(err, ErrNoNode) {
		return nil // taken by another consumer
	}
	if err != nil {
		return err
	}
	mine, err := q.items.take(q.ctx, name)
	if errors.Is(err, ErrConnectionLost) || err != nil && q.ctx.Err() != nil {
		q.items.c.log.Warn("an item may be lost", "item", q.items.path(name), "error", err)
		if gone(err) || q.ctx.Err() != nil {
			return nil
		}
	}
	if err != nil || !mine {
		return err
	}
	if err := q.cfg.Consume(q.ctx, item); err != nil {
		q.items.c.log.Warn("an item is lost", "item", q.items.path(name), "error", err)
	}
	return nil
}

// handleLocked locks an item, handles and deletes it: at least once
// (processWithLockSafety in Curator). It returns true if another consumer has the lock.
func (q *DistributedQueue) handleLocked(name string) (locked bool, err error) {
	l, got, err := q.lock(name)
	if err != nil || !got {
		return !got, err
	}
	defer l.release()
	item, err := q.items.get(q.ctx, name)
	if errors.Is(err, ErrNoNode) {
		return false, nil // handled by another consumer before
	}
	if err != nil {
		return false, err
	}
	ctx, cancel := q.items.c.holding(q.ctx, l.session, q.items.c.reliable)
	failed := q.cfg.Consume(ctx, item)
	interrupted := ctx.Err() != nil
	cancel()
	ctx, cancel = l.after()
	defer cancel()
	if failed != nil {
		q.items.c.log.Warn("an item has failed", "item", q.items.path(name), "error", failed)
		if interrupted {
			return false, nil // by Close, or because the lock may be lost: it stays for another consumer
		}
		if q.cfg.OnError == Requeue {
			// Two requests, where Curator has a transaction: between them the item is in
			// the queue twice.
			if err := q.items.put(ctx, item); err != nil {
				return false, err
			}
		}
	}
	if _, err = q.items.take(ctx, name); gone(err) {
		return false, nil
	}
	return false, err
}

// gone reports whether err, which items.take has returned, means that the item was
// removed, although it is not known by which client.
func gone(err error) bool {
	return errors.Is(err, ErrConnectionLost) && !errors.Is(err, ErrRetryRefused)
}
