package data

import (
	"context"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"conclave"
	"conclave/data/store"
	"conclave/internal/trace"
	"conclave/wire"
	wirev1 "conclave/wire/v1"
	"conclave/wire/v1/wirev1connect"
)

// service answers the calls of sessions and of other data nodes.
type service struct {
	*feeder  // Replicate
	config   Config
	view     *wire.View
	replicas *replicas
	owners   *owners
	feeds    *feeds
	differ   *differ
	slots    *slots
	notes    *notes
	beatNow  func() // sends the next beat at once
	beatSoon func() // sends one when the hand-overs of a table have had their time
}

var _ wirev1connect.DataServiceHandler = (*service)(nil)

// write stores what a session at an address writes. Each slot's batch is accepted or refused
// on its own; an accepted one is stored, and queued for the followers and for the sessions'
// feeds. A slot that is migrating accepts writes, too: what a session writes at the new
// epoch is newer than everything that is still being collected.
func (s *service) write(req *wirev1.WriteRequest, address string) (*wirev1.WriteResponse, error) {
	session := wire.NodeIn(req.GetSession())
	replicas, err := s.check(session, req)
	if err != nil {
		return nil, err
	}
	s.owners.noteContact(session, address)
	s.config.Trace.Claim(trace.Claim{Kind: trace.Storing, Peer: session, Count: len(replicas)})
	now := time.Now()
	results := make([]*wirev1.SlotResult, len(replicas))
	for i, b := range req.GetBatches() {
		access, epoch, hidden := replicas[i].write(session, req.GetNumber(), b, now)
		results[i] = &wirev1.SlotResult{Slot: b.GetSlot(), Access: access, LeaderEpoch: wire.EpochOut(epoch), Hidden: hidden}
		if access == wirev1.Access_ACCESS_ACCEPT {
			s.notes.metrics.writes.Add(float64(len(b.GetPuts()) + len(b.GetRemovals())))
		}
	}
	s.feeds.wake()
	return &wirev1.WriteResponse{Results: results}, nil
}

// replica returns the replica of a slot that a request names.
func (s *service) replica(id uint32) (*replica, error) {
	switch all := s.replicas.all(); {
	case len(all) == 0:
		return nil, wire.Errorf(wire.CodeUnavailable, "no slot table is known here yet")
	case int(id) >= len(all):
		return nil, wire.Errorf(wire.CodeBadRequest, "slot %d: there are %d", id, len(all))
	default:
		return all[id], nil
	}
}

// write applies one batch. It refuses a batch of an older request than one that
// was accepted: the session may since have withdrawn or replaced what it
// contains. The session sends what is still valid again, in a new request.
func (r *replica) write(session conclave.NodeID, number uint64, b *wirev1.SlotBatch, now time.Time) (_ wirev1.Access, _ conclave.Epoch, hidden []*wirev1.Hidden) {
	r.mu.Lock()
	defer r.mu.Unlock()
	access, epoch := r.access(wire.EpochIn(b.GetLeaderEpoch()), true)
	if access != wirev1.Access_ACCESS_ACCEPT {
		return access, epoch, nil
	}
	if number > 0 {
		if number < r.numbers[session] {
			return wirev1.Access_ACCESS_MISMATCH, epoch, nil
		}
		if r.numbers == nil {
			r.numbers = map[conclave.NodeID]uint64{}
		}
		r.numbers[session] = number
	}
	for _, p := range b.GetPuts() {
		c := store.CopyOf(session, p)
		newer := r.store.Write(c, now)
		if by := r.store.HiddenBy(c); by > 0 {
			hidden = append(hidden, &wirev1.Hidden{Id: c.ID, Version: by})
		}
		if !newer {
			continue
		}
		r.trace.Claim(trace.Claim{Kind: trace.Stored, Slot: r.id, Epoch: epoch, Peer: session, Subject: c.ID, Key: c.Data, Version: c.Version, Flag: c.Withdrawn})
	}
	for _, x := range b.GetRemovals() {
		r.store.Remove(store.Key{Owner: session, Data: x.GetDataInfoId(), ID: x.GetId()}, x.GetVersion(), x.GetCause(), now)
		r.trace.Claim(trace.Claim{Kind: trace.Removed, Slot: r.id, Epoch: epoch, Peer: session, Subject: x.GetId(), Key: x.GetDataInfoId(), Version: x.GetVersion(), Count: int(x.GetCause())})
	}
	r.repairWith(session)
	r.wrote(session)
	r.publish()
	return access, epoch, hidden
}

// largestAnswer is the size at which an answer to Fetch is cut; the session
// requests the rest again.
const largestAnswer = conclave.MaxRequest

// Fetch reads data of slots that this node serves.
func (s *service) Fetch(_ context.Context, req *connect.Request[wirev1.FetchRequest]) (*connect.Response[wirev1.FetchResponse], error) {
	session := wire.NodeIn(req.Msg.GetSession())
	if !session.IsZero() {
		s.owners.noteContact(session, wire.CallerAddress(req.Header()))
	}
	now := time.Now()
	out := &wirev1.FetchResponse{Slots: make([]*wirev1.FetchedSlot, 0, len(req.Msg.GetSlots()))}
	size := 0
	for _, in := range req.Msg.GetSlots() {
		r, err := s.replica(in.GetSlot())
		if err != nil {
			return nil, err
		}
		out.Slots = append(out.Slots, r.fetch(session, in, &size, now))
	}
	return connect.NewResponse(out), nil
}

func (r *replica) fetch(session conclave.NodeID, in *wirev1.FetchSlot, size *int, now time.Time) *wirev1.FetchedSlot {
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
		f, count, begun := r.store.Answer(want, largestAnswer, r.maxList, now)
		*size += proto.Size(f)
		if out.Datums = append(out.Datums, f); begun {
			continue // it was read with its first part
		}
		r.trace.Claim(trace.Claim{Kind: trace.Read, Slot: r.id, Epoch: r.epoch, Subject: want.GetDataInfoId(), Version: f.GetDatum().GetVersion(), Count: count, Flag: f.GetSame()})
	}
	r.watchers.noteGiven(session, in.GetWants(), out.Datums, now)
	return out
}

// Finish is called by the successor of slots that this node leads. From its
// answer on, nothing is read or written here at the old epochs, so nothing can
// be read here that the successor does not have. Calling it again has no
// effect.
//
// A higher leader epoch in the request is sufficient proof that the table has
// changed, even if this node has not received it yet.
func (s *service) Finish(_ context.Context, req *connect.Request[wirev1.FinishRequest]) (*connect.Response[wirev1.FinishResponse], error) {
	successor, now := wire.NodeIn(req.Msg.GetSuccessor()), time.Now()
	out := &wirev1.FinishResponse{Slots: make([]*wirev1.FinishedSlot, len(req.Msg.GetSlots()))}
	for i, in := range req.Msg.GetSlots() {
		r := s.replicas.of(int(in.GetSlot()))
		if r == nil {
			out.Slots[i] = &wirev1.FinishedSlot{Access: wirev1.Access_ACCESS_MOVED}
			continue
		}
		finished, stopped := r.finishBefore(wire.EpochIn(in.GetLeaderEpoch()), now)
		out.Slots[i] = finished
		if stopped && out.Slots[i].Access == wirev1.Access_ACCESS_ACCEPT {
			s.notes.finished(r.id, wire.EpochIn(out.Slots[i].SourceEpoch), successor)
		}
	}
	s.feeds.wake()
	s.beatSoon()
	return connect.NewResponse(out), nil
}

// Watch is a session's change feed from every slot that this node serves. While
// it is open the session counts as connected.
func (s *service) Watch(ctx context.Context, req *connect.Request[wirev1.WatchRequest], stream *connect.ServerStream[wirev1.WatchEvent]) error {
	session := wire.NodeIn(req.Msg.GetSession())
	if session.IsZero() {
		return wire.Errorf(wire.CodeBadRequest, "the watch does not name its session")
	}
	s.owners.connected(session, wire.CallerAddress(req.Header()))
	defer s.owners.disconnected(session)

	// The feed is opened first and shown every slot afterwards: what changes in
	// between is pending already, and replaced by the reset.
	w := s.feeds.watchers.open(session, req.Msg.GetAnswers())
	defer s.feeds.watchers.close(w)
	beat := func() error { return stream.Send(&wirev1.WatchEvent{Beat: true}) }
	due := s.beats.Next()
	if err := beat(); err != nil {
		return err
	}
	var missed []diffJob
	for _, r := range s.replicas.all() {
		select { // requests with many registrations may hold the slots' locks for long
		case <-due:
			due = s.beats.Next()
			if err := beat(); err != nil {
				return err
			}
		default:
		}
		if job, misses := r.showTo(w); misses {
			missed = append(missed, job)
		}
	}
	for _, j := range missed {
		s.differ.enqueue(j) // at once: what it had may have been removed when its grace ended
	}
	s.slots.tasks.wake.Set() // migrations may have one more session to ask
	for {
		if event := s.replicas.next(&s.feeds.watchers, w); len(event.Changes) > 0 {
			if err := stream.Send(event); err != nil {
				return err
			}
		}
		select {
		case <-w.wake.C():
		case <-due:
			due = s.beats.Next()
			if err := beat(); err != nil {
				return err
			}
		case <-ctx.Done():
			return wire.Errorf(wire.CodeUnavailable, "the watch has ended: %v", context.Cause(ctx))
		}
	}
}

// Collect is called by a node that was granted slots after a crash, or whose
// source does not answer. A higher leader epoch in the request is sufficient
// proof of that: from the answer on, this node neither serves the slot at an
// older epoch nor follows an older leader. Calling it again has no effect.
func (s *service) Collect(_ context.Context, req *connect.Request[wirev1.CollectRequest], stream *connect.ServerStream[wirev1.ReplicateEvent]) error {
	leader := wire.NodeIn(req.Msg.GetLeader())
	var events []*wirev1.ReplicateEvent
	for _, in := range req.Msg.GetSlots() {
		r := s.replicas.of(int(in.GetSlot()))
		if r == nil {
			continue
		}
		epoch, whole, finished := r.endOlder(in, time.Now())
		if !epoch.IsZero() {
			events = append(events, whole.Messages(r.id, epoch)...)
		}
		if !finished.IsZero() {
			s.notes.finished(r.id, finished, leader)
		}
	}
	s.slots.tasks.post(func() { s.slots.refollow = true })
	s.feeds.wake()
	s.beatNow()
	for _, e := range events {
		if err := stream.Send(e); err != nil {
			return err
		}
	}
	return nil
}
