package serve

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"conclave/internal/signal"
	"conclave/wire"
)

// eventsKept is the number of events that a reader that reconnects can still
// read.
const eventsKept = 2048

// Events is a node's event log, served as server-sent events.
type Events struct {
	node string
	now  func() time.Time

	added signal.Broadcast // at each event

	mu   sync.Mutex   // guards the rest
	ring []wire.Event // the newest, oldest first
	last uint64
}

// NewEvents returns the log of a node. now is only used for the time of each
// event.
func NewEvents(node string, now func() time.Time) *Events {
	return &Events{node: node, now: now}
}

// Add appends an event. It never blocks.
func (e *Events) Add(ev wire.Event) {
	at := e.now().UTC().Truncate(time.Millisecond)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.last++
	ev.ID, ev.At, ev.Node = e.last, at, e.node
	e.ring = append(e.ring, ev)
	if len(e.ring) > eventsKept {
		e.ring = append([]wire.Event(nil), e.ring[len(e.ring)-eventsKept/2:]...)
	}
	e.added.Notify()
}

// Since returns the kept events after id, and a channel that is closed when an
// event is added.
func (e *Events) Since(id uint64) ([]wire.Event, <-chan struct{}) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for i, ev := range e.ring {
		if ev.ID > id {
			return append([]wire.Event(nil), e.ring[i:]...), e.added.Next()
		}
	}
	return nil, e.added.Next()
}

// ServeHTTP streams the events after Last-Event-ID (a header, or the query
// parameter lastEventId), or all that are kept, and then new ones as they are
// added. With ?follow=false it ends after the kept ones.
func (e *Events) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	after := uint64(0)
	for _, s := range []string{r.Header.Get("Last-Event-ID"), r.URL.Query().Get("lastEventId")} {
		if s == "" {
			continue
		}
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			WriteError(w, wire.Errorf(wire.CodeBadRequest, "Last-Event-ID %q is not an event id", s))
			return
		}
		after = n
	}
	follow := r.URL.Query().Get("follow") != "false"
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	flush := http.NewResponseController(w)
	keepAlive := time.NewTicker(15 * time.Second)
	defer keepAlive.Stop()
	for {
		events, more := e.Since(after)
		for _, ev := range events {
			body, err := json.Marshal(ev)
			if err != nil {
				return
			}
			if _, err := fmt.Fprintf(w, "id: %d\nevent: %s\ndata: %s\n\n", ev.ID, ev.Type, body); err != nil {
				return
			}
			after = ev.ID
		}
		if flush.Flush() != nil || !follow {
			return
		}
		select {
		case <-more:
		case <-keepAlive.C:
			if _, err := fmt.Fprint(w, ": still here\n\n"); err != nil {
				return
			}
		case <-r.Context().Done():
			return
		}
	}
}
