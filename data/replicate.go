package data

import (
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	"connectrpc.com/connect"

	"conclave"
	"conclave/internal/signal"
	"conclave/internal/trace"
	"conclave/slot"
	"conclave/wire"
	wirev1 "conclave/wire/v1"
)

// The leader's side of replication: one stream for each node that follows, with
// any number of slots. A slot's feed begins with a snapshot, unless the
// follower has everything up to a position that the log still holds; then every
// change follows at once (data/store/feed.go).

// feedSlot is one slot on one stream. Only the stream's sender uses it.
type feedSlot struct {
	epoch    conclave.Epoch
	sent     uint64
	attached bool // the slot serves at epoch, and sent is a position of it
}

// feeder sends the feeds of the slots that this node leads.
type feeder struct {
	replicas *replicas
	streams  *feedStreams
	beats    *signal.Ticks // of this node's loops: a stream without changes sends a message at each
}

// Replicate serves one follower until its stream ends: this goroutine receives
// requests, another one sends.
func (s *feeder) Replicate(ctx context.Context, stream *connect.BidiStream[wirev1.ReplicateRequest, wirev1.ReplicateEvent]) error {
	f := &feedStream{wake: signal.New(), dirty: map[int]bool{}}
	s.streams.set(f, true)
	defer s.streams.set(f, false)
	ctx, cancel := context.WithCancel(ctx)
	var sending sync.WaitGroup
	sending.Go(func() { s.runFeed(ctx, f, stream.Send) })
	defer sending.Wait()
	defer cancel()
	for {
		m, err := stream.Receive()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		f.mu.Lock()
		f.requests = append(f.requests, m)
		f.mu.Unlock()
		f.wake.Set()
	}
}

// runFeed sends until ctx ends or the stream breaks; in the latter case the
// receiving goroutine gets an error, too.
func (s *feeder) runFeed(ctx context.Context, f *feedStream, send func(*wirev1.ReplicateEvent) error) {
	follows := map[int]*feedSlot{}
	defer func() {
		for id := range follows {
			s.detach(f, id)
		}
	}()
	due := s.beats.Next()
	compared := -1 // the slot that was compared last
	for {
		var requests []*wirev1.ReplicateRequest
		dirty := map[int]bool{}
		if s.replicas.all() != nil { // before the first table, requests stay queued
			requests, dirty = f.takePending()
		}
		for _, a := range requests {
			s.applyRequest(f, follows, a)
			if a.GetFollow() != nil {
				dirty[int(a.GetFollow().GetSlot())] = true
			}
		}
		for _, id := range slices.Sorted(maps.Keys(dirty)) {
			if s.feed(f, follows, id, send) != nil {
				return
			}
		}
		select {
		case <-f.wake.C():
		case <-due:
			due = s.beats.Next()
			// Everything dirty has been sent: all feeds of this stream are
			// current.
			beat := &wirev1.ReplicateEvent{Beat: true}
			for _, id := range comparedNext(follows, compared) {
				compared = id
				if e := s.replicas.of(id).digest(follows[id]); e != nil {
					if beat = nil; send(e) != nil { // it is one, too
						return
					}
				}
			}
			if beat != nil && send(beat) != nil {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// applyRequest begins or ends a slot on the stream, as a follower requested.
func (s *feeder) applyRequest(f *feedStream, follows map[int]*feedSlot, m *wirev1.ReplicateRequest) {
	if u := m.GetUnfollow(); u != nil {
		delete(follows, int(u.GetSlot()))
		s.detach(f, int(u.GetSlot()))
	}
	if a := m.GetFollow(); a != nil {
		s.detach(f, int(a.GetSlot()))
		if r := s.replicas.of(int(a.GetSlot())); r != nil {
			follows[r.id] = &feedSlot{epoch: wire.EpochIn(a.GetLeaderEpoch()), sent: a.GetPosition()}
			r.mu.Lock()
			r.attach(f, 0) // reads nothing yet, but is marked when the slot begins to serve
			r.mu.Unlock()
		}
	}
}

// attach adds a follower's stream, or sets how far it has read. mu is held.
func (r *replica) attach(f *feedStream, read uint64) {
	if r.streams == nil {
		r.streams = map[*feedStream]uint64{}
	}
	r.streams[f] = read
}

// detach removes a slot from a follower's stream.
func (s *feeder) detach(f *feedStream, id int) {
	r := s.replicas.of(id)
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.streams, f)
	if len(r.streams) == 0 && r.store != nil {
		r.store.SetFollowed(false)
	}
}

// feed sends everything that is pending of one slot.
func (s *feeder) feed(f *feedStream, follows map[int]*feedSlot, id int, send func(*wirev1.ReplicateEvent) error) error {
	at := follows[id]
	r := s.replicas.of(id)
	if at == nil || r == nil {
		return nil
	}
	for {
		events, more, gone := r.next(f, at)
		if gone {
			delete(follows, id)
			s.detach(f, id)
		}
		for _, e := range events {
			if err := send(e); err != nil {
				return err
			}
		}
		if !more {
			return nil
		}
	}
}

// next returns the next messages of a slot on a stream. Under the lock it
// copies only pointers, to values that never change.
func (r *replica) next(f *feedStream, at *feedSlot) (events []*wirev1.ReplicateEvent, more, gone bool) {
	r.mu.Lock()
	served := (r.state == slot.Serving || r.state == slot.Finished) && r.epoch == at.epoch
	if !served {
		// A leadership that has not begun yet is waited for; one that has ended
		// is reported.
		epoch := r.epoch
		r.mu.Unlock()
		if at.attached || at.epoch.Less(epoch) {
			return []*wirev1.ReplicateEvent{{Slot: uint32(r.id), LeaderEpoch: wire.EpochOut(at.epoch), Access: wirev1.Access_ACCESS_MOVED}}, false, true
		}
		return nil, false, false
	}
	r.store.SetFollowed(true)
	resumed := !at.attached
	at.attached = true
	e, ok := r.store.Changes(at.sent)
	if !ok {
		whole := r.store.Snapshot(r.store.Position(), time.Now())
		at.sent = whole.Position
		r.noteRead(f, at.sent)
		r.mu.Unlock()
		return whole.Messages(r.id, at.epoch), true, false
	}
	if e.GetBeat() && !resumed {
		r.mu.Unlock()
		return nil, false, false
	}
	e.Slot, e.LeaderEpoch, e.Access = uint32(r.id), wire.EpochOut(at.epoch), wirev1.Access_ACCESS_ACCEPT
	at.sent = e.GetPosition()
	more = at.sent < r.store.Position()
	r.noteRead(f, at.sent)
	r.mu.Unlock()
	return []*wirev1.ReplicateEvent{e}, more, false
}

// compareBeats is the number of beats within which the copy of every slot on a
// stream is compared with its leader's. The original compares each slot of a
// follower every 180 s (article 002: followers and leaders compare their data
// from time to time); its message costs as much as a beat.
const compareBeats = 180

// comparedNext returns the slots of a stream that are to be compared at this
// beat: all of them in turn, after the one that was last.
func comparedNext(follows map[int]*feedSlot, last int) []int {
	ids := slices.Sorted(maps.Keys(follows))
	n := (len(ids) + compareBeats - 1) / compareBeats
	from, _ := slices.BinarySearch(ids, last+1)
	return slices.Concat(ids[from:], ids[:from])[:n]
}

// digest returns the message with which the follower compares its copy, nil if
// it has not been sent everything: the digest is of one position in the feed.
func (r *replica) digest(at *feedSlot) *wirev1.ReplicateEvent {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state != slot.Serving || r.epoch != at.epoch || !at.attached || at.sent != r.store.Position() {
		return nil
	}
	sum, count := r.store.Checksum()
	return &wirev1.ReplicateEvent{
		Slot: uint32(r.id), LeaderEpoch: wire.EpochOut(at.epoch), Access: wirev1.Access_ACCESS_ACCEPT, From: at.sent, Position: at.sent, Counter: r.store.Counter(),
		Beat: true, Digest: &wirev1.CopiesDigest{Sum: sum, Count: uint64(count)},
	}
}

// noteRead records how far a stream has read, and drops what all streams have
// read.
func (r *replica) noteRead(f *feedStream, position uint64) {
	r.attach(f, position)
	slowest := position
	for _, p := range r.streams {
		if p > 0 { // 0: waits for another epoch, or for its snapshot
			slowest = min(slowest, p)
		}
	}
	r.store.Trim(slowest)
}

// next returns the next message of a session's feed.
func (rs *replicas) next(ws *watchers, w *watcher) *wirev1.WatchEvent {
	event, names := ws.next(w), 0
	for _, c := range event.Changes {
		names += len(c.GetDataInfoIds())
	}
	for _, c := range event.Changes {
		if w.given != nil && names <= carryAtOnce && len(c.GetDataInfoIds()) > 0 {
			rs.of(int(c.GetSlot())).carry(w, c, time.Now())
		}
	}
	return event
}

// carry puts the content of what has changed in a slot into a message of a session's
// feed, in the place of names: what the session has read, if the change is small. It is
// the answer to the Fetch that the session does not make, under the same checks and the
// same lock. What is marked is named only, so that the push guard decides by answers
// that come in the order in which they were asked for.
func (r *replica) carry(w *watcher, c *wirev1.SlotChange, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if access, _ := r.access(wire.EpochIn(c.GetLeaderEpoch()), false); access != wirev1.Access_ACCESS_ACCEPT {
		return
	}
	c.DataInfoIds = slices.DeleteFunc(c.DataInfoIds, func(id string) bool {
		hash, ok := r.watchers.mayCarry(w, id, now)
		if !ok || r.store.IsMarked(id, now) {
			return false
		}
		f, count := r.store.Carry(id, hash, now)
		if f == nil {
			r.watchers.forget(w, id)
			return false
		}
		r.watchers.noteGiven(w.session, nil, []*wirev1.Fetched{f}, now)
		r.trace.Claim(trace.Claim{Kind: trace.Read, Slot: r.id, Epoch: r.epoch, Subject: id, Version: f.GetDatum().GetVersion(), Count: count, Flag: f.GetSame()})
		c.Answers = append(c.Answers, f)
		return true
	})
}
