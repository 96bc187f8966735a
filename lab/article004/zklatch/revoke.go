package zklatch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
)

// revokeData is written into the holder's node by a client that asks for the lock.
var revokeData = []byte("__REVOKE__")

// MakeRevocable lets other clients ask for the lock (makeRevocable in article 004):
// asked is called, once for each hold, when a client does. It decides whether to
// release; the lock is never taken away. It must not call Client.Close, which waits for
// its return. Call MakeRevocable before Acquire.
func (m *Mutex) MakeRevocable(asked func(*Mutex)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.revoke = asked
}

// AttemptRevoke asks the holder with the node at path, which Participants returns, to
// release the lock (attemptRevoke in article 004). The holder may ignore it. It returns
// ErrNoNode if the node is not in the queue any more.
func (c *Client) AttemptRevoke(ctx context.Context, path string) error {
	err := untilAnswered(func() error {
		_, err := c.Set(ctx, path, revokeData, AnyVersion) // twice is like once
		return err
	})
	if err != nil {
		return fmt.Errorf("ask for %s: %w", path, err)
	}
	return nil
}

// watchForRevocation watches the own node while the lock is held.
func (m *Mutex) watchForRevocation() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.revoke == nil {
		return
	}
	asked, path := m.revoke, m.place.path()
	ctx, stopWatching := context.WithCancel(m.queue.c.ctx)
	m.stopWatching = stopWatching // Client.Close joins the goroutine
	m.queue.c.background(func() {
		if m.queue.c.waitForRequest(ctx, path) {
			asked(m)
		}
	})
}

// waitForRequest waits until a client asks for the node at path. It returns false if
// the hold ends first.
func (c *Client) waitForRequest(ctx context.Context, path string) bool {
	for {
		_, changed := c.Session()
		data, _, events, err := c.GetW(ctx, path)
		switch {
		case err == nil && bytes.Equal(data, revokeData):
			return ctx.Err() == nil
		case errors.Is(err, ErrConnectionLost):
			continue
		case err != nil:
			return false
		}
		select {
		case <-events:
		case <-changed: // an event may have been missed
		case <-ctx.Done():
			return false
		}
	}
}
