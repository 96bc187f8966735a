package console

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
)

const (
	eventsKept   = 1000 // in a snapshot
	messagesKept = 256  // for viewers that connect again
	viewerQueue  = 128  // messages that may wait for one viewer
	maxViewers   = 256
	clockEvery   = 1000 // milliseconds of State.Now after which it is sent although nothing else has changed
)

// message is one message of the stream, encoded.
type message struct {
	id   uint64
	body []byte // snapshot or change, as the data of a server-sent event
}

// Hub has the state that the page shows, and passes its changes on to the viewers.
// Its methods may be called from any goroutine.
type Hub struct {
	boot string // differs between two processes, whose ids would mean something else

	mu      sync.Mutex // guards the rest
	state   State
	events  []Event
	event   uint64 // id of the newest event
	last    uint64 // id of the newest message
	clock   int64  // State.Now of the newest message
	kept    []message
	viewers map[*viewer]bool
	dropped int
	whole   message // the newest snapshot that a viewer was given
}

// viewer is one reader of the stream.
type viewer struct {
	queue chan message // closed when the viewer is dropped
}

// waiting takes the messages that are in the queue already.
func (v *viewer) waiting() (out [][]byte) {
	for range len(v.queue) {
		if m, ok := <-v.queue; ok {
			out = append(out, m.body)
		}
	}
	return out
}

// NewHub returns a hub that shows nothing yet.
func NewHub() *Hub {
	return &Hub{boot: rand.Text()[:8], viewers: map[*viewer]bool{}}
}

// Show replaces the state and adds events, whose ids it sets. The caller does not
// change the state's maps and slices afterwards.
func (h *Hub) Show(s State, events ...Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	diff := change(h.state, s)
	h.state = s
	if len(events) > 0 {
		diff["events"] = h.number(events)
	}
	if _, clock := diff["now"]; len(diff) > 1 || len(diff) == 1 && (!clock || max(s.Now-h.clock, h.clock-s.Now) >= clockEvery) {
		h.send("change", diff)
	}
}

// Restart replaces everything, the events too: after a jump in a recording.
func (h *Hub) Restart(s State, events []Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.state, h.events = s, nil
	h.number(events)
	h.send("snapshot", h.snapshot())
}

// Viewers returns how many viewers there are, and how many were dropped.
func (h *Hub) Viewers() (now, dropped int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.viewers), h.dropped
}

// number adds the events and returns them with their ids.
func (h *Hub) number(events []Event) []Event {
	events = slices.Clone(events)
	for i := range events {
		h.event++
		events[i].ID = h.event
	}
	h.events = append(h.events, events...)
	if n := len(h.events); n > 2*eventsKept {
		h.events = slices.Clone(h.events[n-eventsKept:])
	}
	return events
}

func (h *Hub) snapshot() map[string]any {
	out := change(State{}, h.state)
	out["events"] = append([]Event{}, h.events[max(0, len(h.events)-eventsKept):]...) // a list also if it is empty
	return out
}

// send encodes a message once and puts it into every viewer's queue. A viewer
// whose queue is full is dropped.
func (h *Hub) send(kind string, content map[string]any) {
	h.last++
	h.clock = h.state.Now
	m := message{h.last, h.encode(kind, content)}
	if h.kept = append(h.kept, m); len(h.kept) > messagesKept {
		h.kept = slices.Delete(h.kept, 0, len(h.kept)-messagesKept)
	}
	for v := range maps.Keys(h.viewers) {
		select {
		case v.queue <- m:
		default:
			h.dropped++
			delete(h.viewers, v)
			close(v.queue)
		}
	}
}

func (h *Hub) encode(kind string, content map[string]any) []byte {
	body, err := json.Marshal(content)
	if err != nil { // a State has only what JSON has
		panic(err)
	}
	return fmt.Appendf(nil, "id: %s-%d\nevent: %s\ndata: %s\n\n", h.boot, h.last, kind, body)
}

// watch adds a viewer. last is the id of the last message that it has seen, "" if
// there is none. It gets first at once, and then what is in its queue. v is nil if
// there are maxViewers already.
func (h *Hub) watch(last string) (v *viewer, first [][]byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.viewers) >= maxViewers {
		return nil, nil
	}
	v = &viewer{queue: make(chan message, viewerQueue)}
	h.viewers[v] = true
	if seen, ok := h.position(last); ok {
		for _, m := range h.kept {
			if m.id > seen {
				first = append(first, m.body)
			}
		}
		return v, first
	}
	if h.whole.body == nil || h.whole.id != h.last { // it is encoded once for all viewers that come before the next message
		h.whole = message{h.last, h.encode("snapshot", h.snapshot())}
	}
	return v, [][]byte{h.whole.body}
}

// position returns the number in the id of a message after which every message is
// kept.
func (h *Hub) position(id string) (uint64, bool) {
	boot, number, _ := strings.Cut(id, "-")
	n, err := strconv.ParseUint(number, 10, 64)
	if err != nil || boot != h.boot || n > h.last {
		return 0, false
	}
	return n, n == h.last || len(h.kept) > 0 && h.kept[0].id <= n+1
}

// leave removes a viewer.
func (h *Hub) leave(v *viewer) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.viewers, v)
}
