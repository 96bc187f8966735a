package session

import (
	"sync"

	"conclave/internal/signal"
	"conclave/session/registry"
	wirev1 "conclave/wire/v1"
)

// outbox is what is still to be sent on one connection.
type outbox struct {
	ready signal.Signal // there is something to send

	mu   sync.Mutex // guards what
	what registry.Outbox
}

// add runs change under the lock and wakes the sender. It never waits for the
// network, so callers may hold locks of their own.
func (o *outbox) add(change func(*registry.Outbox)) {
	o.mu.Lock()
	change(&o.what)
	o.mu.Unlock()
	o.ready.Set()
}

// next removes and returns the next message, or nil when nothing is left to be
// sent.
func (o *outbox) next() *wirev1.ServerMessage {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.what.Next()
}

// overflows reports whether more waits than the client may leave unread.
func (o *outbox) overflows() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.what.Overflows()
}
