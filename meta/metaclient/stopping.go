package metaclient

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"conclave"
	"conclave/wire"
	"conclave/wire/serve"
)

// NodeStopping is how long an announcement to a single node is in force, where
// no leader could record it for the whole cluster.
const NodeStopping = time.Minute

// Stopping is what a session or data node knows of a stop of the whole cluster:
// what the leader has recorded, or what was announced to this node alone. While
// it is in force a graceful stop hands nothing over, since no node will remain.
// It ends by itself: a node that is stopped later drains.
type Stopping struct {
	Node   conclave.NodeID
	View   *wire.View
	Events *serve.Events

	until atomic.Pointer[time.Time] // of the announcement to this node alone; nil: there is none
}

// StoppingInfo answers /v1/stopping, at a session or data node and at a meta.
type StoppingInfo struct {
	Stopping    bool   `json:"stopping"`
	RemainingMs int64  `json:"remainingMs"`
	By          string `json:"by,omitempty"` // leader: recorded for all nodes; node: announced to this one
}

// StoppingRequest is the body of POST /v1/stopping. A meta takes ForMs and By; a
// session or data node takes Incarnation, which must be its own.
type StoppingRequest struct {
	Incarnation string `json:"incarnation,omitempty"`
	ForMs       int64  `json:"forMs,omitempty"` // how long it is in force; 0: a minute
	By          string `json:"by,omitempty"`    // the author of the request
}

// Info returns what is in force now.
func (s *Stopping) Info() StoppingInfo {
	var own time.Duration
	if until := s.until.Load(); until != nil {
		own = time.Until(*until)
	}
	switch recorded, _ := s.View.Stopping(); {
	case recorded > 0 && recorded >= own:
		return StoppingInfo{true, wire.Ms(recorded), "leader"}
	case own > 0:
		return StoppingInfo{true, wire.Ms(own), "node"}
	}
	return StoppingInfo{}
}

// InForce reports whether a stop of this node hands nothing over.
func (s *Stopping) InForce() bool { return s.Info().Stopping }

// Reasons returns what /readyz adds while an announcement is in force.
func (s *Stopping) Reasons() []string {
	info := s.Info()
	if !info.Stopping {
		return nil
	}
	return []string{fmt.Sprintf("the cluster stops (announced by the %s): a node that stops within %v hands nothing over", info.By, wire.FromMs(info.RemainingMs).Round(time.Second))}
}

// ServeHTTP answers /v1/stopping of a session or data node: GET shows what is
// in force, POST announces to this incarnation alone, DELETE withdraws that.
func (s *Stopping) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.Method {
	case http.MethodPost:
		var in StoppingRequest
		d := json.NewDecoder(io.LimitReader(r.Body, 4096))
		d.DisallowUnknownFields()
		switch err := d.Decode(&in); {
		case err != nil && !errors.Is(err, io.EOF):
			serve.WriteError(w, wire.Errorf(wire.CodeBadRequest, "invalid body for %s: %v", r.URL.Path, err))
			return
		case in.Incarnation == "":
			serve.WriteError(w, wire.Errorf(wire.CodeBadRequest, `the body must name the incarnation that stops, as /healthz shows it: {"incarnation": "..."}`))
			return
		case in.Incarnation != s.Node.Incarnation:
			serve.WriteError(w, wire.Errorf(wire.CodeConflict, "incarnation %q is not this node's, which is %s", in.Incarnation, s.Node))
			return
		case in.ForMs < 0 || in.ForMs > wire.Ms(NodeStopping):
			serve.WriteError(w, wire.Errorf(wire.CodeBadRequest, "forMs %d: want 1 to %d", in.ForMs, wire.Ms(NodeStopping)))
			return
		}
		lasts := NodeStopping
		if in.ForMs > 0 {
			lasts = wire.FromMs(in.ForMs)
		}
		s.until.Store(new(time.Now().Add(lasts)))
		s.Events.Add(wire.Event{
			Type: "stop.announced", Text: fmt.Sprintf("the whole cluster is stopping: within %v a stop of this node hands nothing over", lasts),
			Data: map[string]any{"forMs": wire.Ms(lasts), "by": in.By},
		})
	case http.MethodDelete:
		s.until.Store(nil)
		s.Events.Add(wire.Event{Type: "stop.ended", Text: "the announcement to this node was withdrawn"})
	}
	serve.WriteJSON(w, http.StatusOK, s.Info())
}
