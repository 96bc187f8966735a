package metaclient

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"conclave"
	"conclave/internal/signal"
	"conclave/wire"
	"conclave/wire/serve"
)

// How long an announcement is in force: by default, and at most.
const (
	usualStopping = time.Minute
	maxStopping   = 10 * time.Minute
)

// Stopping is what a node knows of a stop of the whole cluster, as `conclave down`
// announces it to each node. While it is in force a graceful stop hands nothing
// over, since no node will remain. It ends by itself, counted from its arrival by
// this node's own monotonic clock: a node that is stopped later drains.
type Stopping struct {
	Node   conclave.NodeID
	Events *serve.Events

	changed signal.Broadcast // at each announcement

	mu    sync.Mutex // guards until
	until time.Time  // of the announcement; zero: there was none
}

// StoppingInfo answers /v1/stopping.
type StoppingInfo struct {
	Stopping    bool  `json:"stopping"`
	RemainingMs int64 `json:"remainingMs"`
}

// StoppingRequest is the body of POST /v1/stopping.
type StoppingRequest struct {
	Incarnation string `json:"incarnation,omitempty"` // of the node; required
	ForMs       int64  `json:"forMs,omitempty"`       // how long it is in force; 0: a minute
	By          string `json:"by,omitempty"`          // the author of the request
}

// Info returns what is in force now.
func (s *Stopping) Info() StoppingInfo {
	s.mu.Lock()
	defer s.mu.Unlock()
	if left := time.Until(s.until); left > 0 {
		return StoppingInfo{true, wire.Ms(left)}
	}
	return StoppingInfo{}
}

// Changed returns a channel that is closed at the next announcement. Call it before
// InForce.
func (s *Stopping) Changed() <-chan struct{} { return s.changed.Next() }

// InForce reports whether a stop of this node hands nothing over.
func (s *Stopping) InForce() bool { return s.Info().Stopping }

// Reasons returns what /readyz adds while an announcement is in force.
func (s *Stopping) Reasons() []string {
	info := s.Info()
	if !info.Stopping {
		return nil
	}
	return []string{fmt.Sprintf("the cluster stops: a node that stops within %v hands nothing over", wire.FromMs(info.RemainingMs).Round(time.Second))}
}

// ServeHTTP answers /v1/stopping: GET shows what is in force, POST announces to
// this incarnation, DELETE withdraws that.
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
		case in.ForMs < 0 || in.ForMs > wire.Ms(maxStopping):
			serve.WriteError(w, wire.Errorf(wire.CodeBadRequest, "forMs %d: want 1 to %d", in.ForMs, wire.Ms(maxStopping)))
			return
		}
		lasts := usualStopping
		if in.ForMs > 0 {
			lasts = wire.FromMs(in.ForMs)
		}
		s.set(time.Now().Add(lasts))
		s.Events.Add(wire.Event{
			Type: "stop.announced", Text: fmt.Sprintf("the whole cluster is stopping: within %v a stop of this node hands nothing over", lasts),
			Data: map[string]any{"forMs": wire.Ms(lasts), "by": in.By},
		})
	case http.MethodDelete:
		s.set(time.Time{})
		s.Events.Add(wire.Event{Type: "stop.ended", Text: "the announcement to this node was withdrawn"})
	}
	serve.WriteJSON(w, http.StatusOK, s.Info())
}

func (s *Stopping) set(until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.until = until
	s.changed.Notify()
}
