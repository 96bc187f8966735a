package zklatch

import (
	"context"
	"errors"
)

// makeContainers creates a container at path, and containers as its parents, where none
// exist (creatingParentContainersIfNeeded in article 004). The servers delete them when
// nothing is left in them. If the servers do not support containers, the nodes are
// persistent, as in Curator.
func (c *Client) makeContainers(ctx context.Context, path string) error {
	if !c.noContainers.Load() {
		err := c.makePath(ctx, path, Container)
		if !errors.Is(err, ErrUnsupported) {
			return err
		}
		c.noContainers.Store(true)
	}
	return c.makePath(ctx, path, Persistent)
}

// makePath creates the missing nodes of a path. It returns ErrNoNode if a container
// above was deleted meanwhile.
func (c *Client) makePath(ctx context.Context, path string, kind Kind) error {
	for at := 1; at <= len(path); at++ {
		if at < len(path) && path[at] != '/' {
			continue
		}
		_, err := c.tree.Create(ctx, path[:at], nil, kind)
		if err != nil && !errors.Is(err, ErrNodeExists) {
			return err
		}
	}
	return nil
}
