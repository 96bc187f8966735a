package data

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"conclave"
	"conclave/slot"
	"conclave/wire"
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

// isReady reports whether this node has registered and none of its slots is
// migrating, and the reasons if not. The reasons also include a drain or stop
// in progress.
func (s *Server) isReady() (bool, []string) {
	var reasons []string
	if err := s.meta.Refusal(); !s.ready.Load() && err != nil {
		reasons = append(reasons, "refused by the leader: "+err.Error())
	} else if !s.ready.Load() {
		reasons = append(reasons, "starting: no leader has registered this node yet")
	}
	migrating := 0
	for _, r := range s.slots.all() {
		r.mu.Lock()
		if r.state == slot.Migrating {
			migrating++
		}
		r.mu.Unlock()
	}
	if migrating > 0 {
		reasons = append(reasons, fmt.Sprintf("%d slots are migrating", migrating))
	}
	ready := len(reasons) == 0
	if s.draining.Load() { // it serves until its slots have been handed over
		reasons = append(reasons, "draining")
	}
	return ready, append(reasons, s.Stopping.Reasons()...)
}

// getSlots lists the slots in which this node has a place or a copy.
func (s *Server) getSlots(w http.ResponseWriter, _ *http.Request) {
	now := time.Now()
	out := []SlotInfo{}
	for _, r := range s.slots.all() {
		rep := r.report(s.follows.lag, now)
		if rep == nil {
			continue
		}
		info := SlotInfo{
			ID: r.id, State: rep.GetState(), Epoch: wire.EpochIn(rep.GetLeaderEpoch()), Position: rep.GetPosition(),
			Counter: rep.GetCounter(), LagMs: rep.GetLagMs(), Owners: []conclave.NodeID{},
		}
		r.mu.Lock()
		info.Leader, info.Partial = r.leader.Name, sortedNodes(r.partial)
		if r.store != nil {
			info.Publishers, info.Owners = r.store.Visible(), r.store.Owners()
		}
		r.mu.Unlock()
		out = append(out, info)
	}
	wire.WriteJSON(w, http.StatusOK, map[string]any{"node": s.config.Node.Name, "epoch": s.view.TableEpoch(), "slots": out})
}

// getDatums lists the data that this node serves, of ids that begin with
// ?prefix=.
func (s *Server) getDatums(w http.ResponseWriter, req *http.Request) {
	prefix := req.URL.Query().Get("prefix")
	now := time.Now()
	out := []DatumInfo{}
	for _, r := range s.slots.all() {
		var data []Datum
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
	sortDatums(out)
	wire.WriteJSON(w, http.StatusOK, out)
}
