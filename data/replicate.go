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
	"conclave/slot"
	"conclave/wire"
	wirev1 "conclave/wire/v1"
)

// The leader's side of replication: one stream for each node that follows,
// carrying any number of slots. A slot's feed begins with a snapshot, unless
// the follower has everything up to a position that the log still reaches; then
// every change follows at once. Messages are cut at partBytes.
const (
	partCopies = 512
	partBytes  = 1 << 20
)

// feedStream is one follower node's stream.
type feedStream struct {
	bell bell

	mu    sync.Mutex // guards the rest; inside a replica's lock
	asks  []*wirev1.ReplicateRequest
	dirty map[int]bool // slots that may have something to send
}

// feedSlot is one slot on one stream; the handler's own.
type feedSlot struct {
	epoch    conclave.Epoch
	sent     uint64
	attached bool // the slot serves at epoch, and sent is a position of it
}

// mark says that a slot may have something to send. A replica's lock is held;
// ring afterwards, without it.
func (f *feedStream) mark(slot int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dirty[slot] = true
}

// feedStreams are all that are open, so that they can be woken.
type feedStreams struct {
	mu  sync.Mutex    // guards all
	all []*feedStream // in the order in which they were opened
}

func (fs *feedStreams) ring() {
	fs.mu.Lock()
	due := slices.Clone(fs.all)
	fs.mu.Unlock()
	for _, f := range due {
		f.mu.Lock()
		waits := len(f.dirty)+len(f.asks) > 0
		f.mu.Unlock()
		if waits {
			f.bell.ring()
		}
	}
}

func (fs *feedStreams) set(f *feedStream, open bool) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if open {
		fs.all = append(fs.all, f)
		return
	}
	fs.all = slices.DeleteFunc(fs.all, func(x *feedStream) bool { return x == f })
}

// Replicate serves one follower until its stream ends: this goroutine reads
// what is asked, another sends.
func (s *Server) Replicate(ctx context.Context, stream *connect.BidiStream[wirev1.ReplicateRequest, wirev1.ReplicateEvent]) error {
	f := &feedStream{bell: newBell(), dirty: map[int]bool{}}
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
		f.asks = append(f.asks, m)
		f.mu.Unlock()
		f.bell.ring()
	}
}

// runFeed sends until ctx ends, or the stream breaks: then the reader sees it
// break too.
func (s *Server) runFeed(ctx context.Context, f *feedStream, send func(*wirev1.ReplicateEvent) error) {
	follows := map[int]*feedSlot{}
	defer func() {
		for id := range follows {
			s.detach(f, id)
		}
	}()
	ticker := time.NewTicker(s.config.Beat)
	defer ticker.Stop()
	for {
		var asks []*wirev1.ReplicateRequest
		dirty := map[int]bool{}
		if s.slots.all() != nil { // before the first table asks wait where they are
			asks, dirty = f.take()
		}
		for _, a := range asks {
			s.ask(f, follows, a)
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
		case <-f.bell:
		case <-ticker.C:
			// All that is dirty was sent: every feed of this stream is current.
			if send(&wirev1.ReplicateEvent{Beat: true}) != nil {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

func (f *feedStream) take() (asks []*wirev1.ReplicateRequest, dirty map[int]bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	asks, dirty = f.asks, f.dirty
	f.asks, f.dirty = nil, map[int]bool{}
	return asks, dirty
}

// ask takes a follower's wish.
func (s *Server) ask(f *feedStream, follows map[int]*feedSlot, m *wirev1.ReplicateRequest) {
	if u := m.GetUnfollow(); u != nil {
		delete(follows, int(u.GetSlot()))
		s.detach(f, int(u.GetSlot()))
	}
	if a := m.GetFollow(); a != nil {
		s.detach(f, int(a.GetSlot()))
		if r := s.slots.of(int(a.GetSlot())); r != nil {
			follows[r.id] = &feedSlot{epoch: wire.EpochIn(a.GetLeaderEpoch()), sent: a.GetPosition()}
			r.mu.Lock()
			r.attach(f, 0) // not reading yet, but told when the slot begins to serve
			r.mu.Unlock()
		}
	}
}

func (r *replica) attach(f *feedStream, read uint64) {
	if r.streams == nil {
		r.streams = map[*feedStream]uint64{}
	}
	r.streams[f] = read
}

func (s *Server) detach(f *feedStream, id int) {
	r := s.slots.of(id)
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.streams, f)
	if len(r.streams) == 0 && r.store != nil {
		r.store.log.follow(false)
	}
}

// feed sends all there is of one slot.
func (s *Server) feed(f *feedStream, follows map[int]*feedSlot, id int, send func(*wirev1.ReplicateEvent) error) error {
	at := follows[id]
	r := s.slots.of(id)
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

// next builds what follows at on its stream. Only pointers are copied under the
// lock: what they point to never changes.
func (r *replica) next(f *feedStream, at *feedSlot) (events []*wirev1.ReplicateEvent, more, gone bool) {
	r.mu.Lock()
	served := (r.state == slot.Serving || r.state == slot.Finished) && r.epoch == at.epoch
	if !served {
		// A leader that is not there yet is waited for; one that is over is not.
		epoch := r.epoch
		r.mu.Unlock()
		if at.attached || at.epoch.Less(epoch) {
			return []*wirev1.ReplicateEvent{{Slot: uint32(r.id), LeaderEpoch: wire.EpochOut(at.epoch), Access: wirev1.Access_ACCESS_MOVED}}, false, true
		}
		return nil, false, false
	}
	log, counter := &r.store.log, r.store.Counter()
	log.follow(true)
	resumed := !at.attached
	at.attached = true
	from := at.sent
	entries, ok := log.since(at.sent, partCopies)
	if at.sent == 0 || !ok {
		copies, position, marked := r.store.All(), log.position, r.store.Marked(time.Now())
		at.sent = position
		r.read(f, position)
		r.mu.Unlock()
		events = snapshot(r.id, at.epoch, copies, position, counter)
		events[len(events)-1].UnconfirmedMs = wire.Ms(marked)
		return events, true, false
	}
	if len(entries) == 0 && !resumed {
		r.mu.Unlock()
		return nil, false, false
	}
	e := &wirev1.ReplicateEvent{
		Slot: uint32(r.id), LeaderEpoch: wire.EpochOut(at.epoch), Access: wirev1.Access_ACCESS_ACCEPT,
		From: from, Counter: counter, Beat: len(entries) == 0,
	}
	n := r.store.describe(entries, e)
	at.sent += uint64(n)
	e.Position = at.sent
	more = at.sent < log.position
	r.read(f, at.sent)
	r.mu.Unlock()
	return []*wirev1.ReplicateEvent{e}, more, false
}

// read notes how far a stream is, and lets go of what all have read.
func (r *replica) read(f *feedStream, position uint64) {
	r.attach(f, position)
	slowest := position
	for _, p := range r.streams {
		if p > 0 { // 0: waits for another epoch, or for its snapshot
			slowest = min(slowest, p)
		}
	}
	r.store.log.trim(slowest)
}

// describe writes how the copies named by entries are now, each once, as far as
// the message may grow; it says how many entries were covered.
func (s *Store) describe(entries []logEntry, e *wirev1.ReplicateEvent) int {
	last := make(map[copyKey]int, len(entries)) // the newest cause of each
	for i, x := range entries {
		last[x.copyKey] = i
	}
	done := make(map[copyKey]bool, len(last))
	size := 0
	for i, x := range entries {
		if done[x.copyKey] {
			continue
		}
		if size > partBytes {
			return i
		}
		done[x.copyKey] = true
		if _, r, at := s.find(x.copyKey); at >= 0 {
			c := copyOf(x.data, r, r.copies[at])
			e.Copies = append(e.Copies, copyOut(c))
			size += c.size()
		} else {
			e.Removals = append(e.Removals, &wirev1.CopyRemoval{
				Id: x.id, DataInfoId: x.data, Owner: wire.NodeOut(x.owner), Cause: entries[last[x.copyKey]].cause,
			})
			size += 64 + len(x.id) + len(x.data)
		}
	}
	return len(entries)
}

// snapshot cuts a whole copy into messages; an empty one is one message too.
func snapshot(id int, epoch conclave.Epoch, copies []Copy, position uint64, counter int64) []*wirev1.ReplicateEvent {
	var out []*wirev1.ReplicateEvent
	for first := true; first || len(copies) > 0; first = false {
		e := &wirev1.ReplicateEvent{
			Slot: uint32(id), LeaderEpoch: wire.EpochOut(epoch), Access: wirev1.Access_ACCESS_ACCEPT,
			Position: position, Counter: counter, Snapshot: true,
		}
		size := 0
		for len(copies) > 0 && size < partBytes && len(e.Copies) < partCopies {
			e.Copies = append(e.Copies, copyOut(copies[0]))
			size += copies[0].size()
			copies = copies[1:]
		}
		out = append(out, e)
	}
	out[0].SnapshotBegin, out[len(out)-1].SnapshotEnd = true, true
	return out
}

func copyOut(c Copy) *wirev1.Copy {
	return &wirev1.Copy{
		Publisher: &wirev1.Publisher{Id: c.id, DataInfoId: c.data, Version: c.version, Values: c.values, Withdrawn: c.withdrawn},
		Owner:     wire.NodeOut(c.owner),
	}
}

func copyIn(m *wirev1.Copy) Copy {
	p := m.GetPublisher()
	return Copy{copyKey{wire.NodeIn(m.GetOwner()), p.GetDataInfoId(), p.GetId()}, p.GetVersion(), p.GetValues(), p.GetWithdrawn()}
}

func (c Copy) size() int {
	n := 64 + len(c.id) + len(c.data)
	for _, v := range c.values {
		n += 4 + len(v)
	}
	return n
}
