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

// AttemptRevoke asks the holder with the node at path, which Client.Participants returns, to
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

// watchForRevocation watches the own node until it is deleted.
func (m *Mutex) watchForRevocation() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.revoke == nil {
		return
	}
	asked, held := m.revoke, m.place
	m.queue.c.group.Go(func() {
		if m.queue.c.waitForRequest(held.path()) && m.holds(held) {
			asked(m)
		}
	})
}

// holds reports whether the lock is held by this place.
func (m *Mutex) holds(p place) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.count > 0 && m.place == p
}

// waitForRequest waits until a client asks for the node at path. It returns false if
// the node is deleted first, or the Client is closed.
func (c *Client) waitForRequest(path string) bool {
	for {
		_, changed := c.Session()
		data, _, events, err := c.GetW(c.ctx, path)
		switch {
		case err == nil && bytes.Equal(data, revokeData):
			return true
		case errors.Is(err, ErrConnectionLost):
			continue
		case err != nil:
			return false
		}
		select {
		case <-events:
		case <-changed: // an event may have been missed
		case <-c.ctx.Done():
			return false
		}
	}
}
