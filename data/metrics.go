package data

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"conclave"
	"conclave/slot"
)

// metrics are the few that an operator of a data node needs first.
type metrics struct {
	registry   *prometheus.Registry
	writes     prometheus.Counter
	diffs      prometheus.Counter
	unreadable prometheus.Histogram
}

// newMetrics returns the metrics of a node with these replicas. lag returns how
// long a leader has sent nothing, refused how many stale commands and states
// were refused.
func newMetrics(rs *replicas, lag func(conclave.NodeID) time.Duration, refused func() uint64) *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		writes:   prometheus.NewCounter(prometheus.CounterOpts{Name: "conclave_data_writes_total", Help: "Registrations, tombstones and removals stored for sessions."}),
		diffs:    prometheus.NewCounter(prometheus.CounterOpts{Name: "conclave_data_diffs_total", Help: "Diffs that sessions answered."}),
		unreadable: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "conclave_data_slot_unreadable_seconds", Help: "Time during which no node served a slot before this one did.",
			Buckets: []float64{.001, .002, .005, .01, .02, .05, .1, .3, 1, 3, 10},
		}),
	}
	m.registry.MustRegister(m.writes, m.diffs, m.unreadable)
	for _, state := range []slot.ReportState{slot.Following, slot.CaughtUp, slot.Migrating, slot.Serving, slot.Finished} {
		m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "conclave_data_slots", Help: "Slots by their state on this node.", ConstLabels: prometheus.Labels{"state": string(state)},
		}, func() float64 {
			n, now := 0, time.Now()
			for _, r := range rs.all() {
				if rep := r.report(lag, now); rep.GetState() == string(state) {
					n++
				}
			}
			return float64(n)
		}))
	}
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "conclave_data_slots_partial", Help: "Slots that are served without a session that could not be reached: what it has may be missing.",
	}, func() float64 {
		n := 0
		for _, r := range rs.all() {
			r.mu.Lock()
			if r.state == slot.Serving && len(r.partial) > 0 {
				n++
			}
			r.mu.Unlock()
		}
		return float64(n)
	}))
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "conclave_data_publishers", Help: "Registrations that subscribers see, in the slots served here.",
	}, func() float64 {
		_, load := rs.report(lag, time.Now())
		return float64(load)
	}))
	m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "conclave_stale_commands_refused_total", Help: "Commands of older terms, and states of older epochs, that were refused.",
	}, func() float64 { return float64(refused()) }))
	return m
}
