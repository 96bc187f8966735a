package data

import (
	"fmt"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"

	"conclave"
	"conclave/internal/node"
	"conclave/slot"
	"conclave/wire"
	"conclave/wire/serve"
)

// notes are what an operator sees of the slots: log lines, events, metrics.
type notes struct {
	log     hclog.Logger
	events  *serve.Events
	metrics *metrics
	term    func() uint64 // the highest that was received
	grace   time.Duration // the session grace
}

// serving records that a slot begins to be served. gap is the time during
// which no node served it as far as this node knows: since it learned of its
// grant (the source stops a moment later, when it receives Finish).
func (s *notes) serving(m *migration, fromSessions, incomplete bool, gap time.Duration) {
	s.metrics.unreadable.Observe(gap.Seconds())
	how := "handed over by " + m.source.Name
	if fromSessions {
		how = fmt.Sprintf("%d sessions answered", len(m.answered))
		if m.taken {
			how = "handed over by " + m.source.Name + ", " + how
		}
	}
	if incomplete {
		how += ", not all owners did"
	}
	s.log.Debug("slot served", "slot", m.r.id, "epoch", m.epoch, "how", how, "unreadable", gap)
	s.events.Add(wire.Event{
		Type: "slot.serving", Term: m.epoch.Term, Epoch: &m.epoch, Text: fmt.Sprintf("slot %d served: %s", m.r.id, how),
		Data: map[string]any{"slot": m.r.id, "unreadableMs": float64(gap.Microseconds()) / 1000, "source": m.source.Name, "heard": len(m.answered), "unheard": incomplete},
	})
}

// partial records that a slot is served although some sessions could not be
// asked what they have.
func (s *notes) partial(m *migration, without []conclave.NodeID) {
	names := make([]string, len(without))
	for i, n := range without {
		names[i] = n.Name
	}
	s.log.Warn("slot is served without sessions that could not be reached: what they have may be missing", "slot", m.r.id, "epoch", m.epoch, "sessions", without)
	s.events.Add(wire.Event{
		Type: "slot.partial", Term: m.epoch.Term, Epoch: &m.epoch,
		Text: fmt.Sprintf("slot %d is served without %s, which could not be reached", m.r.id, strings.Join(names, ", ")),
		Data: map[string]any{"slot": m.r.id, "sessions": without},
	})
}

func (s *notes) finished(id int, epoch conclave.Epoch, successor conclave.NodeID) {
	s.log.Debug("slot finished", "slot", id, "epoch", epoch, "successor", successor.Name)
	s.events.Add(wire.Event{
		Type: "slot.finished", Term: epoch.Term, Epoch: &epoch, Text: fmt.Sprintf("slot %d finished for %s", id, successor.Name),
		Data: map[string]any{"slot": id, "successor": successor.Name},
	})
}

// copyDiffers records that the copy of a slot here was not the leader's at the
// same position of its feed, which no fault explains.
func (s *notes) copyDiffers(id int, epoch conclave.Epoch, leader conclave.NodeID) {
	s.metrics.differing.Inc()
	s.log.Error("the copy of a slot differs from its leader's: it is loaded again", "slot", id, "epoch", epoch, "leader", leader.Name)
	s.events.Add(wire.Event{
		Type: "copy.differs", Term: epoch.Term, Epoch: &epoch, Text: fmt.Sprintf("the copy of slot %d differed from that of %s and is loaded again", id, leader.Name),
		Data: map[string]any{"slot": id, "leader": leader.Name},
	})
}

func (s *notes) ownerGone(owner conclave.NodeID, removed int) {
	s.log.Info("lost session's publishers removed", "session", owner, "publishers", removed, "grace", s.grace)
	s.events.Add(wire.Event{
		Type: "session.gone", Term: s.term(), Text: fmt.Sprintf("%d publishers of session %s removed, its grace has ended", removed, owner),
		Data: map[string]any{"session": owner.Name, "incarnation": owner.Incarnation, "publishers": removed},
	})
}

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
