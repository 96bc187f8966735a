package data

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"conclave"
	"conclave/internal/node"
	"conclave/slot"
)

// metrics are the few that an operator of a data node needs first, besides
// those of every node.
type metrics struct {
	writes     prometheus.Counter
	diffs      prometheus.Counter
	differing  prometheus.Counter
	unreadable prometheus.Histogram
}

// newMetrics adds the metrics of a node with these replicas. lag returns how
// long a leader has sent nothing.
func newMetrics(all *node.Metrics, rs *replicas, lag func(conclave.NodeID) time.Duration) *metrics {
	m := &metrics{
		writes:    prometheus.NewCounter(prometheus.CounterOpts{Name: "conclave_data_writes_total", Help: "Registrations, tombstones and removals stored for sessions."}),
		diffs:     prometheus.NewCounter(prometheus.CounterOpts{Name: "conclave_data_diffs_total", Help: "Diffs that sessions answered."}),
		differing: prometheus.NewCounter(prometheus.CounterOpts{Name: "conclave_data_copies_differing_total", Help: "Copies that differed from their leader's at one position and were loaded again: a defect."}),
		unreadable: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "conclave_data_slot_unreadable_seconds", Help: "Time during which no node served a slot before this one did.",
			Buckets: []float64{.001, .002, .005, .01, .02, .05, .1, .3, 1, 3, 10},
		}),
	}
	all.Add(m.writes, m.diffs, m.differing, m.unreadable)
	for _, state := range []slot.ReportState{slot.Following, slot.CaughtUp, slot.Migrating, slot.Serving, slot.Finished} {
		all.LabelledGauge("conclave_data_slots", "Slots by their state on this node.", prometheus.Labels{"state": string(state)}, func() float64 {
			n, now := 0, time.Now()
			for _, r := range rs.all() {
				if rep := r.report(lag, now); rep.GetState() == string(state) {
					n++
				}
			}
			return float64(n)
		})
	}
	all.Gauge("conclave_data_slots_partial", "Slots that are served without a session that could not be reached: what it has may be missing.", func() float64 {
		n := 0
		for _, r := range rs.all() {
			r.mu.Lock()
			if r.state == slot.Serving && len(r.partial) > 0 {
				n++
			}
			r.mu.Unlock()
		}
		return float64(n)
	})
	all.Gauge("conclave_data_publishers", "Registrations that subscribers see, in the slots served here.", func() float64 {
		_, load := rs.report(lag, time.Now())
		return float64(load)
	})
	return m
}
