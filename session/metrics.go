package session

import (
	"github.com/prometheus/client_golang/prometheus"

	"conclave/internal/node"
	"conclave/session/registry"
)

// counters are those that the parts of the session count themselves.
type counters struct {
	refusals prometheus.Counter // refused registrations and subscriptions
	expired  prometheus.Counter // clients that were removed with registrations
	waits    prometheus.Counter // messages that waited for room
	unread   prometheus.Counter // connections that were ended because their client did not read
}

// exportMetrics exports the session's metrics, besides those of every node.
func exportMetrics(m *node.Metrics, r *locked, c *clients) counters {
	n := counters{
		refusals: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "conclave_session_refused_total", Help: "Registrations and subscriptions that were refused.",
		}),
		expired: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "conclave_session_client_leases_expired_total", Help: "Clients that did not come back within their lease and whose registrations were removed.",
		}),
		waits: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "conclave_session_waits_total", Help: "Messages with new registrations that waited until data had stored earlier ones.",
		}),
	}
	n.unread = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "conclave_session_unread_total", Help: "Connections that were ended because their client left too much unread, or for too long.",
	})
	m.Add(n.refusals, n.expired, n.waits, n.unread)
	m.Gauge("conclave_session_unsent_bytes", "Changes that data has not stored yet, about.", func() float64 { return float64(with(r, (*registry.Registry).Unsent)) })
	figures := func() registry.Figures { return with(r, (*registry.Registry).Figures) }
	m.Gauge("conclave_session_clients", "Connected clients.", func() float64 { return float64(c.count()) })
	m.Gauge("conclave_session_publishers", "Live registrations held.", func() float64 { return float64(with(r, (*registry.Registry).Live)) })
	m.Gauge("conclave_session_subscribers", "Subscriptions held.", func() float64 { return float64(figures().Subscriptions) })
	m.Gauge("conclave_session_pushes_held", "Pushes that the guard is holding back.", func() float64 { return float64(figures().Held) })
	m.Gauge("conclave_session_lists_too_large", "Lists that are too large to be sent: their subscribers keep what they have.", func() float64 { return float64(figures().TooLarge) })
	m.Counter("conclave_session_pushes_total", "Pushes given to subscribers.", func() uint64 { return figures().Pushes })
	m.Counter("conclave_session_pushes_held_total", "Pushes that the guard held back.", func() uint64 { return figures().HeldTotal })
	return n
}
