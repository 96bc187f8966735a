package data

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"connectrpc.com/connect"

	"conclave"
	"conclave/slot"
	"conclave/wire"
	wirev1 "conclave/wire/v1"
)

// bell wakes one loop. Rings that come before it looks are one ring.
type bell chan struct{}

func newBell() bell { return make(bell, 1) }

// ring never blocks; call it without a lock.
func (b bell) ring() {
	select {
	case b <- struct{}{}:
	default:
	}
}

// watchers are the sessions' open change feeds.
//
// A feed carries names, not content: which data of which slot changed, up to
// which position. What a session has not been sent yet is merged, so a slow one
// costs a set of names and never a queue. The first change is sent at once.
type watchers struct {
	mu  sync.Mutex // guards all and what is pending in each; inside a replica's lock
	all []*watcher
}

type watcher struct {
	session conclave.NodeID
	bell    bell
	pending map[int]*pendingChange // by slot
	sent    map[int]uint64         // the position last sent; the handler's own
}

type pendingChange struct {
	epoch        conclave.Epoch
	position     uint64
	reset, ended bool
	ids          map[string]struct{}
}

// change notes that data of a slot changed. A replica's lock is held: changes
// come in the order of their positions.
func (ws *watchers) change(slot int, epoch conclave.Epoch, position uint64, ids []string) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for _, w := range ws.all {
		p := w.pending[slot]
		if p == nil {
			p = &pendingChange{ids: make(map[string]struct{}, len(ids))}
			w.pending[slot] = p
		}
		p.epoch, p.position = epoch, position
		if p.reset {
			continue // everything will be fetched anyway
		}
		for _, id := range ids {
			p.ids[id] = struct{}{}
		}
	}
}

// reset notes that a slot begins to be served, ended that it is no more. What
// was pending of it is void.
func (ws *watchers) reset(slot int, epoch conclave.Epoch, position uint64) {
	ws.put(slot, pendingChange{epoch: epoch, position: position, reset: true})
}

func (ws *watchers) ended(slot int, epoch conclave.Epoch) {
	ws.put(slot, pendingChange{epoch: epoch, ended: true})
}

func (ws *watchers) put(slot int, p pendingChange) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for _, w := range ws.all {
		q := p
		w.pending[slot] = &q
	}
}

// ring wakes every feed that has something to send; without any lock.
func (ws *watchers) ring() {
	ws.mu.Lock()
	var due []bell
	for _, w := range ws.all {
		if len(w.pending) > 0 {
			due = append(due, w.bell)
		}
	}
	ws.mu.Unlock()
	for _, b := range due {
		b.ring()
	}
}

func (ws *watchers) open(session conclave.NodeID) *watcher {
	w := &watcher{session: session, bell: newBell(), pending: map[int]*pendingChange{}, sent: map[int]uint64{}}
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.all = append(ws.all, w)
	return w
}

func (ws *watchers) close(w *watcher) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.all = slices.DeleteFunc(ws.all, func(o *watcher) bool { return o == w })
}

// take is the next message: all that is pending, in the order of the slots.
func (ws *watchers) take(w *watcher) *wirev1.WatchEvent {
	ws.mu.Lock()
	pending := w.pending
	w.pending = make(map[int]*pendingChange)
	ws.mu.Unlock()
	out := &wirev1.WatchEvent{}
	for _, id := range slices.Sorted(maps.Keys(pending)) {
		p := pending[id]
		c := &wirev1.SlotChange{
			Slot: uint32(id), LeaderEpoch: wire.EpochOut(p.epoch), From: w.sent[id], Position: p.position, Reset_: p.reset, Ended: p.ended,
			DataInfoIds: slices.Sorted(maps.Keys(p.ids)),
		}
		w.sent[id] = p.position
		out.Changes = append(out.Changes, c)
	}
	return out
}

// Watch is a session's change feed from every slot that this node serves. While
// it is open the session counts as connected.
func (s *Server) Watch(ctx context.Context, req *connect.Request[wirev1.WatchRequest], stream *connect.ServerStream[wirev1.WatchEvent]) error {
	session := wire.NodeIn(req.Msg.GetSession())
	if session.IsZero() {
		return wire.Errorf(wire.CodeBadRequest, "a watch must name its session")
	}
	s.owners.connected(session, wire.CallerAddress(req.Header()))
	defer s.owners.disconnected(session)

	// Registered first, then shown every slot: what changes in between is
	// pending already, and void by the reset that comes after it.
	w := s.watchers.open(session)
	defer s.watchers.close(w)
	var missed []diffJob
	for _, r := range s.slots.all() {
		r.mu.Lock()
		if r.state == slot.Serving {
			s.watchers.show(w, r.id, r.epoch, r.store.log.position)
			r.suspect(session) // it may have missed us for a while
			if count, _ := r.store.Digest(session); count == 0 || r.partial[session] {
				missed = append(missed, diffJob{r: r, epoch: r.epoch, session: session})
			}
		}
		r.mu.Unlock()
	}
	for _, j := range missed {
		s.differ.ask(j) // now: what it had may have been taken away when its grace ended
	}
	s.slots.bell.ring() // one more session to be heard, perhaps
	ticker := time.NewTicker(s.config.Beat)
	defer ticker.Stop()
	if err := stream.Send(&wirev1.WatchEvent{Beat: true}); err != nil {
		return err
	}
	for {
		if event := s.watchers.take(w); len(event.Changes) > 0 {
			if err := stream.Send(event); err != nil {
				return err
			}
		}
		select {
		case <-w.bell:
		case <-ticker.C:
			if err := stream.Send(&wirev1.WatchEvent{Beat: true}); err != nil {
				return err
			}
		case <-ctx.Done():
			return wire.Errorf(wire.CodeUnavailable, "the watch ends: %v", context.Cause(ctx))
		}
	}
}

// show makes a slot pending for one feed only: a replica's lock is held.
func (ws *watchers) show(w *watcher, slot int, epoch conclave.Epoch, position uint64) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	w.pending[slot] = &pendingChange{epoch: epoch, position: position, reset: true}
}
