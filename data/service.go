package data

import (
	"context"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"conclave"
	"conclave/data/store"
	"conclave/internal/trace"
	"conclave/slot"
	"conclave/wire"
	wirev1 "conclave/wire/v1"
	"conclave/wire/v1/wirev1connect"
)

var _ wirev1connect.DataServiceHandler = (*Server)(nil)

// Write stores a session's registrations. Each slot's batch is accepted or
// refused on its own. When the answer is sent, an accepted batch is stored, and
// queued for the followers and for the sessions' feeds. A slot that is
// migrating accepts writes, too: what a session writes at the new epoch is
// newer than everything that is still being collected.
func (s *Server) Write(_ context.Context, req *connect.Request[wirev1.WriteRequest]) (*connect.Response[wirev1.WriteResponse], error) {
	session := wire.NodeIn(req.Msg.GetSession())
	batches, err := s.read(session, req.Msg)
	if err != nil {
		return nil, err
	}
	s.owners.noteContact(session, wire.CallerAddress(req.Header()))
	s.config.Trace.Claim(trace.Claim{Kind: trace.Storing, Peer: session, Count: len(batches)})
	now := time.Now()
	results := make([]*wirev1.SlotResult, len(batches))
	for i, b := range batches {
		access, epoch := b.replica.write(session, req.Msg.GetNumber(), b, &s.watchers, now)
		results[i] = &wirev1.SlotResult{Slot: uint32(b.replica.id), Access: access, LeaderEpoch: wire.EpochOut(epoch)}
		if access == wirev1.Access_ACCESS_ACCEPT {
			s.metrics.writes.Add(float64(len(b.puts) + len(b.removals)))
		}
	}
	s.wakeFeeds()
	return connect.NewResponse(&wirev1.WriteResponse{Results: results}), nil
}

// batch is a SlotBatch that has been checked.
type batch struct {
	replica  *replica
	epoch    conclave.Epoch
	puts     []store.Copy
	removals []*wirev1.Removal
}

// read checks a whole request before any of it is applied.
func (s *Server) read(session conclave.NodeID, m *wirev1.WriteRequest) ([]batch, error) {
	if session.Name == "" || session.Incarnation == "" {
		return nil, wire.Errorf(wire.CodeBadRequest, "the write does not name its session and incarnation")
	}
	all := s.slots.all()
	out := make([]batch, 0, len(m.GetBatches()))
	for _, in := range m.GetBatches() {
		if len(all) == 0 {
			return nil, wire.Errorf(wire.CodeUnavailable, "no slot table is known here yet")
		}
		id := int(in.GetSlot())
		if id >= len(all) {
			return nil, wire.Errorf(wire.CodeBadRequest, "slot %d: there are %d", id, len(all))
		}
		b := batch{replica: all[id], epoch: wire.EpochIn(in.GetLeaderEpoch()), removals: in.GetRemovals(), puts: make([]store.Copy, len(in.GetPuts()))}
		for i, m := range in.GetPuts() {
			p, err := wire.PublisherIn(m)
			if err != nil {
				return nil, err
			}
			b.puts[i] = store.CopyOf(session, p)
			if of := slot.Of(b.puts[i].Data, len(all)); of != id {
				return nil, wire.Errorf(wire.CodeBadRequest, "%s belongs to slot %d, not to slot %d", b.puts[i].Data, of, id)
			}
		}
		out = append(out, b)
	}
	return out, nil
}

// write applies one batch. It refuses a batch of an older request than one that
// was accepted: the session may since have withdrawn or replaced what it
// contains. The session sends what is still valid again, in a new request.
func (r *replica) write(session conclave.NodeID, number uint64, b batch, w *watchers, now time.Time) (wirev1.Access, conclave.Epoch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	access, epoch := r.access(b.epoch, true)
	if access != wirev1.Access_ACCESS_ACCEPT {
		return access, epoch
	}
	if number > 0 {
		if number < r.numbers[session] {
			return wirev1.Access_ACCESS_MISMATCH, epoch
		}
		if r.numbers == nil {
			r.numbers = map[conclave.NodeID]uint64{}
		}
		r.numbers[session] = number
	}
	for _, c := range b.puts {
		if !r.store.Write(c, now) {
			continue // not newer than what is here
		}
		r.trace.Claim(trace.Claim{Kind: trace.Stored, Slot: r.id, Epoch: b.epoch, Peer: session, Subject: c.ID, Key: c.Data, Version: c.Version, Flag: c.Withdrawn})
	}
	for _, x := range b.removals {
		r.store.Remove(store.Key{Owner: session, Data: x.GetDataInfoId(), ID: x.GetId()}, x.GetVersion(), x.GetCause(), now)
		r.trace.Claim(trace.Claim{Kind: trace.Removed, Slot: r.id, Epoch: b.epoch, Peer: session, Subject: x.GetId(), Key: x.GetDataInfoId(), Version: x.GetVersion(), Count: int(x.GetCause())})
	}
	r.repairWith(session)
	r.publish(w)
	return access, epoch
}

// largestAnswer is the size at which an answer to Fetch is cut; the session
// requests the rest again.
const largestAnswer = conclave.MaxRequest

// Fetch reads data of slots that this node serves.
func (s *Server) Fetch(_ context.Context, req *connect.Request[wirev1.FetchRequest]) (*connect.Response[wirev1.FetchResponse], error) {
	all := s.slots.all()
	if session := wire.NodeIn(req.Msg.GetSession()); !session.IsZero() {
		s.owners.noteContact(session, wire.CallerAddress(req.Header()))
	}
	now := time.Now()
	out := &wirev1.FetchResponse{Slots: make([]*wirev1.FetchedSlot, 0, len(req.Msg.GetSlots()))}
	size := 0
	for _, in := range req.Msg.GetSlots() {
		id := int(in.GetSlot())
		if id >= len(all) {
			if len(all) == 0 {
				return nil, wire.Errorf(wire.CodeUnavailable, "no slot table is known here yet")
			}
			return nil, wire.Errorf(wire.CodeBadRequest, "slot %d: there are %d", id, len(all))
		}
		fetched := all[id].fetch(in, &size, now)
		out.Slots = append(out.Slots, fetched)
	}
	return connect.NewResponse(out), nil
}

func (r *replica) fetch(in *wirev1.FetchSlot, size *int, now time.Time) *wirev1.FetchedSlot {
	r.mu.Lock()
	defer r.mu.Unlock()
	access, epoch := r.access(wire.EpochIn(in.GetLeaderEpoch()), false)
	out := &wirev1.FetchedSlot{Slot: uint32(r.id), Access: access, LeaderEpoch: wire.EpochOut(epoch)}
	if access != wirev1.Access_ACCESS_ACCEPT {
		return out
	}
	for _, want := range in.GetWants() {
		if *size > largestAnswer {
			break
		}
		f := r.store.Read(want.GetDataInfoId(), want.GetVersion(), want.GetHash(), now)
		*size += proto.Size(f)
		out.Datums = append(out.Datums, f)
		r.trace.Claim(trace.Claim{Kind: trace.Read, Slot: r.id, Epoch: r.epoch, Subject: want.GetDataInfoId(), Version: f.GetDatum().GetVersion(), Count: len(f.GetDatum().GetValues()), Flag: f.GetSame()})
	}
	return out
}

// Finish is called by the successor of slots that this node leads. From its
// answer on, nothing is read or written here at the old epochs, so nothing can
// be read here that the successor does not have. Calling it again has no
// effect.
//
// A higher leader epoch in the request is sufficient proof that the table has
// changed, even if this node has not received it yet.
func (s *Server) Finish(_ context.Context, req *connect.Request[wirev1.FinishRequest]) (*connect.Response[wirev1.FinishResponse], error) {
	successor, now := wire.NodeIn(req.Msg.GetSuccessor()), time.Now()
	out := &wirev1.FinishResponse{Slots: make([]*wirev1.FinishedSlot, len(req.Msg.GetSlots()))}
	for i, in := range req.Msg.GetSlots() {
		out.Slots[i] = &wirev1.FinishedSlot{Access: wirev1.Access_ACCESS_MOVED}
		r := s.slots.of(int(in.GetSlot()))
		if r == nil {
			continue
		}
		r.mu.Lock()
		stopped := r.state == slot.Serving
		if (stopped || r.state == slot.Finished) && r.epoch.Less(wire.EpochIn(in.GetLeaderEpoch())) {
			r.finish(&s.watchers)
			out.Slots[i] = &wirev1.FinishedSlot{
				Access: wirev1.Access_ACCESS_ACCEPT, SourceEpoch: wire.EpochOut(r.epoch),
				Position: r.store.Position(), Counter: r.store.Counter(), UnconfirmedMs: wire.Ms(r.store.Marked(now)), IncompleteMs: wire.Ms(r.store.Incomplete(now)),
			}
		}
		r.mu.Unlock()
		if stopped && out.Slots[i].Access == wirev1.Access_ACCESS_ACCEPT {
			s.noteFinished(r.id, wire.EpochIn(out.Slots[i].SourceEpoch), successor)
		}
	}
	s.wakeFeeds()
	s.beatNow()
	return connect.NewResponse(out), nil
}

// finish ends reads and writes for good and keeps the copy. mu is held.
func (r *replica) finish(w *watchers) {
	if r.state != slot.Serving {
		return
	}
	r.trace.Claim(trace.Claim{Kind: trace.Finished, Slot: r.id, Epoch: r.epoch, Version: r.store.Counter()})
	r.enter(slot.Finished, r.epoch, w)
}
