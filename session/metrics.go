package session

import "github.com/prometheus/client_golang/prometheus"

// exportMetrics exports the session's metrics, besides those of every node.
func (s *Server) exportMetrics() {
	s.refusals = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "conclave_session_refused_total", Help: "Registrations and subscriptions that were refused.",
	})
	m := s.Metrics
	m.Add(s.refusals)
	m.Gauge("conclave_session_clients", "Connected clients.", func() float64 { return float64(s.clients.count()) })
	m.Gauge("conclave_session_publishers", "Live registrations held.", func() float64 { live, _ := s.registry.counts(); return float64(live) })
	m.Gauge("conclave_session_subscribers", "Subscriptions held.", func() float64 { subs, _, _ := s.topics.figures(); return float64(subs) })
	m.Gauge("conclave_session_pushes_held", "Pushes that the guard is holding back.", func() float64 { _, held, _ := s.topics.figures(); return float64(held) })
	m.Counter("conclave_session_pushes_total", "Pushes given to subscribers.", func() uint64 { _, _, n := s.topics.figures(); return uint64(n) })
	m.Counter("conclave_session_pushes_held_total", "Pushes that the guard held back.", func() uint64 { return s.topics.guard.heldTotal.Load() })
}
