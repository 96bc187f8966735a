package session

import (
	"github.com/prometheus/client_golang/prometheus"

	"conclave/internal/node"
	"conclave/session/registry"
)

// exportMetrics exports the session's metrics, besides those of every node. It
// returns the count of refused registrations and subscriptions.
func exportMetrics(m *node.Metrics, r *locked, c *clients) (refusals prometheus.Counter) {
	refusals = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "conclave_session_refused_total", Help: "Registrations and subscriptions that were refused.",
	})
	m.Add(refusals)
	figures := func() registry.Figures { return with(r, (*registry.Registry).Figures) }
	m.Gauge("conclave_session_clients", "Connected clients.", func() float64 { return float64(c.count()) })
	m.Gauge("conclave_session_publishers", "Live registrations held.", func() float64 { return float64(with(r, (*registry.Registry).Live)) })
	m.Gauge("conclave_session_subscribers", "Subscriptions held.", func() float64 { return float64(figures().Subscriptions) })
	m.Gauge("conclave_session_pushes_held", "Pushes that the guard is holding back.", func() float64 { return float64(figures().Held) })
	m.Counter("conclave_session_pushes_total", "Pushes given to subscribers.", func() uint64 { return figures().Pushes })
	m.Counter("conclave_session_pushes_held_total", "Pushes that the guard held back.", func() uint64 { return figures().HeldTotal })
	return refusals
}
