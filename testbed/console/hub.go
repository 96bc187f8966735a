package console

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
)

const (
	eventsKept  = 1000 // in a snapshot
	viewerQueue = 128  // messages that may wait for one viewer
	maxViewers  = 256
	clockEvery  = 1000 // milliseconds of State.Now after which it is sent although nothing else has changed
)

// Hub has the state that the page shows, and passes its changes on to the viewers.
// Its methods may be called from any goroutine.
type Hub struct {
	mu      sync.Mutex // guards the rest
	state   State
	events  []Event
	event   uint64 // id of the newest event
	clock   int64  // State.Now of the newest message
	viewers map[*viewer]bool
	whole   []byte // a snapshot that was encoded since the newest message; nil: none was
}

// viewer is one reader of the stream.
type viewer struct {
	queue chan []byte // encoded messages; closed when the viewer is dropped
}

// waiting takes the messages that are in the queue already.
func (v *viewer) waiting() (out [][]byte) {
	for range len(v.queue) {
		if m, ok := <-v.queue; ok {
			out = append(out, m)
		}
	}
	return out
}

// NewHub returns a hub that shows nothing yet.
func NewHub() *Hub {
	return &Hub{viewers: map[*viewer]bool{}}
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
	h.clock, h.whole = h.state.Now, nil
	m := encode(kind, content)
	for v := range h.viewers {
		select {
		case v.queue <- m:
		default:
			delete(h.viewers, v)
			close(v.queue)
		}
	}
}

// encode returns a message as a server-sent event.
func encode(kind string, content map[string]any) []byte {
	body, err := json.Marshal(content)
	if err != nil { // a State has only what JSON has
		panic(err)
	}
	return fmt.Appendf(nil, "event: %s\ndata: %s\n\n", kind, body)
}

// watch adds a viewer, which gets a snapshot at once, and then what is in its queue. v
// is nil if there are maxViewers already.
func (h *Hub) watch() (v *viewer, first []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.viewers) >= maxViewers {
		return nil, nil
	}
	v = &viewer{queue: make(chan []byte, viewerQueue)}
	h.viewers[v] = true
	if h.whole == nil {
		h.whole = encode("snapshot", h.snapshot())
	}
	return v, h.whole
}

// Follow sends a viewer in this process one snapshot and then changes, with their kinds and
// as JSON, until ctx ends. A viewer that is too slow gets a snapshot again.
func (h *Hub) Follow(ctx context.Context, send func(kind string, content []byte)) {
	for ctx.Err() == nil {
		v, m := h.watch()
		for open := v != nil; open; {
			kind, content, _ := bytes.Cut(bytes.TrimPrefix(m, []byte("event: ")), []byte("\ndata: "))
			send(string(kind), bytes.TrimSpace(content))
			select {
			case m, open = <-v.queue:
			case <-ctx.Done():
				open = false
			}
		}
		if v == nil {
			return // there are maxViewers already
		}
		h.leave(v)
	}
}

// leave removes a viewer.
func (h *Hub) leave(v *viewer) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.viewers, v)
}

// change returns what differs between two states, by the JSON names of State's
// fields: a field as a whole or, if it is a map, its entries that differ, with nil
// for those that are gone.
func change(from, to State) map[string]any {
	out := map[string]any{}
	a, b := reflect.ValueOf(from), reflect.ValueOf(to)
	for i := range b.NumField() {
		name, _, _ := strings.Cut(b.Type().Field(i).Tag.Get("json"), ",")
		was, is := a.Field(i), b.Field(i)
		if is.Kind() != reflect.Map {
			if !reflect.DeepEqual(was.Interface(), is.Interface()) {
				out[name] = is.Interface()
			}
			continue
		}
		if entries := changed(was, is); len(entries) > 0 {
			out[name] = entries
		}
	}
	return out
}

// changed returns the entries of a map that differ.
func changed(was, is reflect.Value) map[string]any {
	out := map[string]any{}
	for each := is.MapRange(); each.Next(); {
		old := was.MapIndex(each.Key())
		if !old.IsValid() || !reflect.DeepEqual(old.Interface(), each.Value().Interface()) {
			out[each.Key().String()] = each.Value().Interface()
		}
	}
	for each := was.MapRange(); each.Next(); {
		if !is.MapIndex(each.Key()).IsValid() {
			out[each.Key().String()] = nil
		}
	}
	return out
}
