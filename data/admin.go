package data

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"

	"conclave"
	"conclave/data/store"
	"conclave/internal/node"
	"conclave/slot"
	"conclave/wire"
	"conclave/wire/serve"
)

// SlotInfo is one slot as this node sees it: GET /v1/slots.
type SlotInfo struct {
	ID         int               `json:"id"`
	State      string            `json:"state"` // following, caughtUp, migrating, serving, finished
	Epoch      conclave.Epoch    `json:"leaderEpoch"`
	Leader     string            `json:"leader,omitempty"` // the leader that the copy follows
	Position   uint64            `json:"position"`
	Counter    int64             `json:"counter"`
	LagMs      int64             `json:"lagMs"`
	Publishers int               `json:"publishers"`
	Owners     []conclave.NodeID `json:"owners"`
	Partial    []conclave.NodeID `json:"partial,omitempty"` // sessions that could not be reached: what they have may be missing
}

// DatumInfo is what subscribers see under one id: GET /v1/datums.
type DatumInfo struct {
	conclave.DataInfoID
	Slot          int      `json:"slot"`
	Version       int64    `json:"version"`
	Publishers    int      `json:"publishers"`
	Values        []string `json:"values,omitzero"`      // without ?values=false
	MoreValues    int      `json:"moreValues,omitempty"` // that are not listed, because they are too large
	UnconfirmedMs int64    `json:"unconfirmedMs,omitempty"`
}

// admin answers the questions of operators about the slots.
type admin struct {
	node     conclave.NodeID
	view     *wire.View
	replicas *replicas
	lag      func(leader conclave.NodeID) time.Duration // how long a leader has sent nothing
}

// getSlots lists the slots in which this node has a place or a copy.
func (s *admin) getSlots(w http.ResponseWriter, req *http.Request) {
	page, after, err := serve.NumberedPageOf(req)
	if err != nil {
		serve.WriteError(w, err)
		return
	}
	if page.After != "" {
		page.After = serve.NumberKey(after)
	}
	now := time.Now()
	out := []SlotInfo{}
	for _, r := range s.replicas.all() {
		rep := r.report(s.lag, now)
		if rep == nil {
			continue
		}
		out = append(out, SlotInfo{
			ID: r.id, State: rep.GetState(), Epoch: wire.EpochIn(rep.GetLeaderEpoch()), Position: rep.GetPosition(),
			Counter: rep.GetCounter(), LagMs: rep.GetLagMs(), Owners: []conclave.NodeID{},
		})
	}
	out, next := serve.Cut(out, page, func(i SlotInfo) string { return serve.NumberKey(uint64(i.ID)) })
	if next != "" {
		w.Header().Set("Link", serve.NextPage(req, strconv.Itoa(out[len(out)-1].ID)))
	}
	for i := range out {
		s.replicas.of(out[i].ID).describe(&out[i])
	}
	serve.WriteJSON(w, http.StatusOK, map[string]any{"node": s.node.Name, "epoch": s.view.TableEpoch(), "slots": out})
}

// describe adds what a beat does not report.
func (r *replica) describe(info *SlotInfo) {
	r.mu.Lock()
	defer r.mu.Unlock()
	info.Leader = r.leader.Name
	if r.state == slot.Serving {
		info.Partial = sortedNodes(r.partial)
	}
	if r.store != nil {
		info.Publishers, info.Owners = r.store.Visible(), r.store.Owners()
	}
}

// datumBytes is how much of the values of one datum is listed.
const datumBytes = 4 << 20

// getDatums lists the data that this node serves, of ids that begin with ?prefix=, and
// that have ?match= in the id or in a value; with ?values=false without what is registered
// under them.
func (s *admin) getDatums(w http.ResponseWriter, req *http.Request) {
	q := req.URL.Query()
	prefix, match, values := q.Get("prefix"), q.Get("match"), q.Get("values") != "false"
	serve.WriteList(w, req, serve.List[string, DatumInfo]{
		Key: func(id string) string { return id },
		Keys: func(add func(...string)) {
			for _, r := range s.replicas.all() {
				add(r.ids(prefix, match)...)
			}
		},
		Rows: func(ids []string) []DatumInfo {
			out, all, now := make([]DatumInfo, 0, len(ids)), s.replicas.all(), time.Now()
			for _, id := range ids {
				r := all[slot.Of(id, len(all))]
				d, found := r.datum(id, now)
				data, err := conclave.ParseDataInfoID(id)
				if !found || err != nil { // ids are checked before they are stored
					continue
				}
				row := DatumInfo{DataInfoID: data, Slot: r.id, Version: d.Version, Publishers: d.Publishers, UnconfirmedMs: wire.Ms(d.Unconfirmed)}
				if values {
					row.Values = append([]string{}, serve.FirstValues(d.Values, datumBytes)...)
					row.MoreValues = len(d.Values) - len(row.Values)
				}
				out = append(out, row)
			}
			return out
		},
	})
}

// ids returns the ids that are served here, begin with prefix, and have match in the id
// or in a value.
func (r *replica) ids(prefix, match string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state != slot.Serving {
		return nil
	}
	return r.store.IDs(prefix, match)
}

// datum returns what subscribers see of an id, and false if it is not served here.
func (r *replica) datum(id string, now time.Time) (store.Datum, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state != slot.Serving {
		return store.Datum{}, false
	}
	return r.store.Datum(id, now)
}

// CopyInfo summarizes the copy of one slot at this node, for tests that compare
// the copies of several nodes: at one leader epoch and one position in the
// feed, all copies have the same digest.
type CopyInfo struct {
	Slot     int
	Leads    bool           // this node serves the slot
	Detached bool           // it neither serves the slot nor reads its leader's feed; Digest is not comparable
	Epoch    conclave.Epoch // of the leader
	Position uint64
	Digest   uint64 // of every entry's owner, id and version
	Entries  int
}

// Copies lists the slots of which this node has a complete copy: those that it
// serves, those that it follows, and those whose copy is of an earlier feed, for
// example while it takes the slot over.
func (s *Server) Copies() []CopyInfo {
	var out []CopyInfo
	for _, r := range s.replicas.all() {
		r.mu.Lock()
		info := CopyInfo{Slot: r.id}
		switch {
		case r.store == nil:
		case r.state == slot.Serving:
			info.Leads, info.Epoch, info.Position = true, r.epoch, r.store.Position()
		case r.state == "" && r.attached && !r.leader.IsZero() && r.copyEpoch == r.leaderEpoch:
			info.Epoch, info.Position = r.copyEpoch, r.copyPosition
		default:
			info.Detached, info.Epoch, info.Position = true, r.copyEpoch, r.copyPosition
		}
		if !info.Epoch.IsZero() {
			info.Digest, info.Entries = r.store.Checksum()
			out = append(out, info)
		}
		r.mu.Unlock()
	}
	return out
}

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
