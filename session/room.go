package session

import (
	"context"

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
// so the overload waits at the clients, where Publish blocks. Withdrawals, and
// newer versions of what is held already, do not wait: they replace something.
type room struct {
	registry *locked
	limit    int // bytes; see registry.Full
	settled  signal.Broadcast
	waits    prometheus.Counter
}

// split returns what of a client's registrations is taken at once, and what has to
// wait.
func (m *room) split(publishers []*wirev1.Publisher) (now, later []*wirev1.Publisher) {
	m.registry.do(func(r *registry.Registry) {
		if now = publishers; !r.Full(m.limit) {
			return
		}
		now = nil
		for _, p := range publishers {
			if p.GetWithdrawn() || r.Knows(p.GetId()) {
				now = append(now, p)
			} else {
				later = append(later, p)
			}
		}
	})
	if len(later) > 0 {
		m.waits.Inc()
	}
	return now, later
}

// wait waits until there is room, or ctx ends.
func (m *room) wait(ctx context.Context) error {
	for ctx.Err() == nil {
		settled := m.settled.Next()
		if !with(m.registry, func(r *registry.Registry) bool { return r.Full(m.limit) }) {
			break
		}
		select {
		case <-settled:
		case <-ctx.Done():
		}
	}
	return ctx.Err()
}
