package data

import (
	"net/http"
	"strconv"
	"time"

	"conclave"
	"conclave/data/store"
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
	Values        []string `json:"values"`
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

// datumBytes is how much of the values of one datum is listed: a row is in memory
// while it is written.
const datumBytes = 4 << 20

// getDatums lists the data that this node serves, of ids that begin with
// ?prefix=.
func (s *admin) getDatums(w http.ResponseWriter, req *http.Request) {
	prefix := req.URL.Query().Get("prefix")
	serve.WriteList(w, req, serve.List[string, DatumInfo]{
		Key: func(id string) string { return id },
		Keys: func(add func(...string)) {
			for _, r := range s.replicas.all() {
				add(r.ids(prefix)...)
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
				shown := firstValues(d.Values, datumBytes)
				out = append(out, DatumInfo{data, r.id, d.Version, d.Publishers, shown, len(d.Values) - len(shown), wire.Ms(d.Unconfirmed)})
			}
			return out
		},
	})
}

// ids returns the ids that are served here and begin with prefix.
func (r *replica) ids(prefix string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state != slot.Serving {
		return nil
	}
	return r.store.IDs(prefix)
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

// firstValues returns the values that have at most the given number of bytes.
func firstValues(values []string, bytes int) []string {
	for i, v := range values {
		if bytes -= len(v); bytes < 0 {
			return values[:i]
		}
	}
	return values
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
