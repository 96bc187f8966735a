package zklatch

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"path"

	"github.com/go-zookeeper/zk"
)

// SingleNode is the lock with which the article begins: one node of one name. The
// client that creates it holds the lock; all others watch it, and each release wakes
// all of them. It is not fair, and is here for comparison with [Mutex].
type SingleNode struct {
	c    *Client
	path string
	id   string // of the last Acquire, the content of its node
}

// SingleNode returns a handle of the lock at a path. One goroutine uses it.
func (c *Client) SingleNode(path string) *SingleNode { return &SingleNode{c: c, path: path} }

// Acquire waits until this handle has created the node. If it returns an error,
// a node that it may have created all the same is deleted in the background.
func (l *SingleNode) Acquire(ctx context.Context) error {
	l.id = rand.Text()
	err := l.acquire(ctx, l.id)
	if err != nil {
		l.discard(l.id)
	}
	return err
}

func (l *SingleNode) acquire(ctx context.Context, id string) error {
	for {
		_, err := l.c.Create(ctx, l.path, []byte(id), zk.FlagEphemeral)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, ErrSessionExpired):
			continue
		case errors.Is(err, ErrNoNode):
			if err := l.c.makePath(ctx, path.Dir(l.path), zk.FlagContainer); err != nil && !errors.Is(err, ErrNoNode) {
				return fmt.Errorf("acquire %s: %w", l.path, err)
			}
			continue
		case !errors.Is(err, ErrNodeExists) && !errors.Is(err, ErrConnectionLost):
			return fmt.Errorf("acquire %s: %w", l.path, err)
		}
		_, changed := l.c.Session() // not before Create, which waits for the first connection
		data, _, events, err := l.c.GetW(ctx, l.path)
		switch {
		case err == nil && string(data) == id:
			return nil // the answer was lost, but the node is ours
		case errors.Is(err, ErrNoNode) || lost(err):
			continue // released meanwhile, or not answered
		case err != nil:
			return fmt.Errorf("acquire %s: %w", l.path, err)
		}
		select {
		case <-events:
			l.c.woken.Add(1)
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Release deletes the node if it is this handle's. Without an answer it does so in
// the background.
func (l *SingleNode) Release(ctx context.Context) error {
	if err := l.remove(ctx, l.id); err != nil && !errors.Is(err, ErrNoNode) {
		l.discard(l.id)
	}
	return nil
}

// discard deletes the node in the background if it is the one with this id.
func (l *SingleNode) discard(id string) {
	l.c.repeat("delete "+l.path, func() error { return l.remove(l.c.ctx, id) })
}

// remove deletes the node if it is the one with this id: another client may hold
// the lock. If the session ends between the two requests, and the second is sent by the
// next session, it may still delete the next holder's node, which the article's single
// node cannot exclude: a node that was created again has the same version, 0.
func (l *SingleNode) remove(ctx context.Context, id string) error {
	data, stat, err := l.c.Get(ctx, l.path)
	if err != nil || string(data) != id {
		return err
	}
	return l.c.Delete(ctx, l.path, stat.Version)
}
