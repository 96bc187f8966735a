package zklatch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
)

// revokeData is what somebody writes into a holder's node who asks for the lock.
var revokeData = []byte("__REVOKE__")

// MakeRevocable agrees to be asked for the lock: asked is called, once for each hold,
// when somebody does. It decides what to do; nothing is ever taken from it. Call it
// before Acquire.
func (m *Mutex) MakeRevocable(asked func(*Mutex)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.revoke = asked
}

// AttemptRevoke asks who holds the lock with the node at path, found among the
// participants, to give it back. Whether it does is its affair. ErrNoNode: it does
// not stand in the line any more.
func (c *Client) AttemptRevoke(ctx context.Context, path string) error {
	if _, err := c.tree.Set(ctx, path, revokeData, AnyVersion); err != nil {
		return fmt.Errorf("ask for %s: %w", path, err)
	}
	return nil
}

// heedRevocation watches the own node while the lock is held.
func (m *Mutex) heedRevocation() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.revoke == nil {
		return
	}
	asked, path := m.revoke, m.place.path()
	ctx, calm := context.WithCancel(m.line.c.ctx)
	m.calm = calm // the background's goroutine is joined by Client.Close
	m.line.c.background(func() {
		if m.line.c.untilAsked(ctx, path) {
			asked(m)
		}
	})
}

// untilAsked waits until somebody asks for the node at path; false: it is over
// without that.
func (c *Client) untilAsked(ctx context.Context, path string) bool {
	for {
		_, changed := c.tree.Session()
		data, _, watch, err := c.tree.GetW(ctx, path)
		switch {
		case err == nil && bytes.Equal(data, revokeData):
			return ctx.Err() == nil
		case errors.Is(err, ErrConnectionLost):
			continue
		case err != nil:
			return false
		}
		select {
		case <-watch:
		case <-changed: // the watch may have been silent for a while
		case <-ctx.Done():
			return false
		}
	}
}
