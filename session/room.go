package session

import (
	"context"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"conclave/internal/signal"
	"conclave/session/registry"
	wirev1 "conclave/wire/v1"
)

// maxUnsent is how many bytes of changes a session takes before data has stored
// them, of which each data node accounts for half at most: what two data nodes on
// a busy machine store within two seconds, less than half a client lease
// (ADR 0079).
const maxUnsent = 8 << 20

// room makes clients wait that send new registrations faster than data stores
// them. What a client is not answered it does not send more of (client/window.go),
// so the overload waits at the clients, where Publish blocks.
type room struct {
	registry *locked
	limit    int // bytes; see registry.Full
	settled  signal.Broadcast
	waits    prometheus.Counter
}

// wait waits until there is room for what a client has sent, or ctx ends.
// Withdrawals, and newer versions of what is held already, do not wait: they
// replace something. No lock is held meanwhile, so other clients go on, and so do
// this one's pings, which are requests of their own; of a client that pings in its
// stream, extend keeps the stream open.
func (m *room) wait(ctx context.Context, publishers []*wirev1.Publisher, extend func()) {
	if !m.lacks(publishers) {
		return
	}
	m.waits.Inc()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		settled := m.settled.Next()
		if !m.lacks(publishers) {
			return
		}
		select {
		case <-settled:
		case <-tick.C:
			extend()
		case <-ctx.Done():
			return
		}
	}
}

// lacks reports whether there is no room, and one of these is new.
func (m *room) lacks(publishers []*wirev1.Publisher) bool {
	return with(m.registry, func(r *registry.Registry) bool {
		return r.Full(m.limit) && slices.ContainsFunc(publishers, func(p *wirev1.Publisher) bool {
			return !p.GetWithdrawn() && !r.Knows(p.GetId())
		})
	})
}
