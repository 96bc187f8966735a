package zklatch

import (
	"context"
	"errors"
	"strings"
	"time"
)

// What the recipes that use one node share: barriers, shared values and counters.

// unanswered reports whether a request that changes nothing, or may be repeated, is to
// be tried again. Each try waits for a connection.
func unanswered(err error) bool {
	return errors.Is(err, ErrConnectionLost) || errors.Is(err, ErrSessionExpired)
}

// persist creates a persistent node, and its parents, if there is none.
func (c *Client) persist(ctx context.Context, path string, data []byte) error {
	for {
		_, err := c.tree.Create(ctx, path, data, Persistent)
		switch {
		case err == nil, errors.Is(err, ErrNodeExists):
			return nil
		case errors.Is(err, ErrNoNode):
			if err := c.persist(ctx, parentOf(path), nil); err != nil {
				return err
			}
		case !unanswered(err):
			return err
		}
	}
}

// parentOf returns the path of a node's parent; that of a top node is empty.
func parentOf(path string) string { return path[:strings.LastIndexByte(path, '/')] }

// get reads a node.
func (c *Client) get(ctx context.Context, path string) ([]byte, Stat, error) {
	for {
		data, stat, err := c.tree.Get(ctx, path)
		if !unanswered(err) {
			return data, stat, err
		}
	}
}

// node is a node as it was read; exists is false if there was none.
type node struct {
	data   []byte
	stat   Stat
	exists bool
}

// follow reads a node and calls see, and does so again after each event and each change
// of the connection, until see reports done, or ctx ends. A node that does not exist
// cannot be watched: unless see reports done then, it must have created the node.
func (c *Client) follow(ctx context.Context, path string, see func(node) (done bool, err error)) error {
	for {
		_, changed := c.tree.Session()
		data, stat, watch, err := c.tree.GetW(ctx, path)
		if unanswered(err) {
			continue
		}
		if err != nil && !errors.Is(err, ErrNoNode) {
			return err
		}
		if done, err := see(node{data: data, stat: stat, exists: err == nil}); done || err != nil {
			return err
		}
		if watch == nil {
			continue
		}
		select {
		case <-watch:
			c.woken.Add(1)
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// within calls act with a time limit. It returns false if the limit has ended it.
func within(ctx context.Context, limit time.Duration, act func(context.Context) error) (bool, error) {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := act(limited)
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		return false, nil
	}
	return err == nil, err
}
