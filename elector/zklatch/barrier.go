package zklatch

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Barrier is a node that clients wait for to be removed (DistributedBarrier of Curator).
// Any client may set it, and any client may remove it. It does not end with the session
// of the client that has set it. Any goroutine may use it.
type Barrier struct {
	c     *Client
	path  string
	watch watch
}

// Barrier returns a handle of the barrier at a path.
func (c *Client) Barrier(path string) *Barrier { return &Barrier{c: c, path: path} }

// Set sets the barrier (setBarrier of Curator). If it is set already, nothing happens.
// If the answer is lost, it is repeated, which may set a barrier that was removed
// meanwhile.
func (b *Barrier) Set(ctx context.Context) error {
	if err := b.c.persist(ctx, b.path, nil); err != nil {
		return fmt.Errorf("set barrier %s: %w", b.path, err)
	}
	return nil
}

// Remove removes the barrier (removeBarrier of Curator). If it is not set, nothing
// happens. If the answer is lost, it is repeated, which may remove a barrier that was
// set again meanwhile.
func (b *Barrier) Remove(ctx context.Context) error {
	err := b.c.callWithRetry(ctx, func() error { return b.c.tree.Delete(ctx, b.path, AnyVersion) })
	if err != nil && !errors.Is(err, ErrNoNode) {
		return fmt.Errorf("remove barrier %s: %w", b.path, err)
	}
	return nil
}

// Wait waits until the barrier that is set now has been removed; without one it returns
// at once (waitOnBarrier of Curator). A barrier that is set again meanwhile does not
// hold it up.
func (b *Barrier) Wait(ctx context.Context) error {
	var first int64 // the transaction that created the barrier
	err := b.c.follow(ctx, b.path, &b.watch, func(n node) (done bool, err error) {
		if first == 0 {
			first = n.stat.Czxid
		}
		return !n.exists || n.stat.Czxid != first, nil
	})
	if err != nil {
		return fmt.Errorf("wait on barrier %s: %w", b.path, err)
	}
	return nil
}

// TryWait is Wait with a time limit. It returns false if the barrier was not removed in
// time.
func (b *Barrier) TryWait(ctx context.Context, limit time.Duration) (bool, error) {
	return within(ctx, limit, b.Wait)
}
