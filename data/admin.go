package data

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
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
func (s *admin) getSlots(w http.ResponseWriter, _ *http.Request) {
	now := time.Now()
	out := []SlotInfo{}
	for _, r := range s.replicas.all() {
		rep := r.report(s.lag, now)
		if rep == nil {
			continue
		}
		info := SlotInfo{
			ID: r.id, State: rep.GetState(), Epoch: wire.EpochIn(rep.GetLeaderEpoch()), Position: rep.GetPosition(),
			Counter: rep.GetCounter(), LagMs: rep.GetLagMs(), Owners: []conclave.NodeID{},
		}
		r.mu.Lock()
		info.Leader = r.leader.Name
		if r.state == slot.Serving {
			info.Partial = sortedNodes(r.partial)
		}
		if r.store != nil {
			info.Publishers, info.Owners = r.store.Visible(), r.store.Owners()
		}
		r.mu.Unlock()
		out = append(out, info)
	}
	serve.WriteJSON(w, http.StatusOK, map[string]any{"node": s.node.Name, "epoch": s.view.TableEpoch(), "slots": out})
}

// getDatums lists the data that this node serves, of ids that begin with
// ?prefix=.
func (s *admin) getDatums(w http.ResponseWriter, req *http.Request) {
	prefix := req.URL.Query().Get("prefix")
	now := time.Now()
	out := []DatumInfo{}
	for _, r := range s.replicas.all() {
		var data []store.Datum
		r.mu.Lock()
		if r.state == slot.Serving {
			data = r.store.Data(now, func(id string) bool { return strings.HasPrefix(id, prefix) })
		}
		r.mu.Unlock()
		for _, d := range data {
			id, err := conclave.ParseDataInfoID(d.ID)
			if err != nil {
				continue // cannot happen: ids are checked before they are stored
			}
			out = append(out, DatumInfo{id, r.id, d.Version, d.Publishers, d.Values, wire.Ms(d.Unconfirmed)})
		}
	}
	slices.SortFunc(out, func(a, b DatumInfo) int { return cmp.Compare(a.String(), b.String()) })
	serve.WriteJSON(w, http.StatusOK, out)
}
