package zklatch

import (
	"context"
	"errors"
	"fmt"
)

// SingleNode is the lock with which the article begins: one node of one name. The
// client that creates it holds the lock; all others watch it, and each release wakes
// all of them. It is not fair, and is here for comparison with [Mutex].
type SingleNode struct {
	c    *Client
	path string
}

// SingleNode returns a handle of the lock at a path.
func (c *Client) SingleNode(path string) *SingleNode { return &SingleNode{c, path} }

// Acquire waits until this handle has created the node.
func (l *SingleNode) Acquire(ctx context.Context) error {
	id := []byte(l.c.id())
	for {
		_, changed := l.c.tree.Session()
		_, err := l.c.tree.Create(ctx, l.path, id, Ephemeral)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, ErrSessionExpired):
			continue
		case !errors.Is(err, ErrNodeExists) && !errors.Is(err, ErrConnectionLost):
			return fmt.Errorf("acquire %s: %w", l.path, err)
		}
		data, _, watch, err := l.c.tree.GetW(ctx, l.path)
		switch {
		case err == nil && string(data) == string(id):
			return nil // the answer was lost, but the node is ours
		case errors.Is(err, ErrNoNode), errors.Is(err, ErrConnectionLost), errors.Is(err, ErrSessionExpired):
			continue
		case err != nil:
			return fmt.Errorf("acquire %s: %w", l.path, err)
		}
		select {
		case <-watch:
			l.c.woken.Add(1)
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Release deletes the node.
func (l *SingleNode) Release(ctx context.Context) error {
	err := l.c.tree.Delete(ctx, l.path, AnyVersion)
	if err != nil && !errors.Is(err, ErrNoNode) {
		l.c.discard(l.path)
	}
	return nil
}
