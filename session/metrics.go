package session

import "github.com/prometheus/client_golang/prometheus"

// metrics holds the session's metrics.
type metrics struct {
	registry *prometheus.Registry
	refused  prometheus.Counter
}

func newMetrics(s *Server) *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		refused: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "conclave_session_refused_total", Help: "Registrations and subscriptions that were refused.",
		}),
	}
	gauge := func(name, help string, read func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, read)
	}
	counter := func(name, help string, read func() float64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, read)
	}
	m.registry.MustRegister(
		m.refused,
		gauge("conclave_session_clients", "Connected clients.", func() float64 { return float64(s.clients.count()) }),
		gauge("conclave_session_publishers", "Live registrations held.", func() float64 { live, _ := s.registry.counts(); return float64(live) }),
		gauge("conclave_session_subscribers", "Subscriptions held.", func() float64 { subs, _, _ := s.topics.figures(); return float64(subs) }),
		gauge("conclave_session_pushes_held", "Pushes that the guard is holding back.", func() float64 { _, held, _ := s.topics.figures(); return float64(held) }),
		counter("conclave_session_pushes_total", "Pushes given to subscribers.", func() float64 { _, _, n := s.topics.figures(); return float64(n) }),
		counter("conclave_session_pushes_held_total", "Pushes that the guard held back.", func() float64 { return float64(s.topics.guard.heldTotal.Load()) }),
		counter("conclave_session_stale_terms_refused_total", "Commands of older terms that were refused.", func() float64 { return float64(s.terms.Refused()) }),
	)
	return m
}
