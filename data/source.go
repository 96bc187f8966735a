package data

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"connectrpc.com/connect"

	"conclave"
	"conclave/data/store"
	"conclave/internal/trace"
	"conclave/slot"
	"conclave/wire"
	wirev1 "conclave/wire/v1"
)

// What a migration asks of other nodes: the source of a hand-over to finish
// (Finish), and the other holders for their copies (Collect).
//
// After a crash, the meta leader grants a slot by the positions in heartbeats, so
// another holder may be further than the node that is granted it, by changes that
// no session has any more. The new leader therefore takes the furthest copy of the
// other live holders in its row as a whole, as a follower installs a snapshot,
// before it compares with the sessions (docs/adr/0064). The successor of a source
// that does not answer does so as well. A holder that is silent for FinishTimeout
// is left out.
//
// The sessions replace a silent source only if all of them answer: what a session
// had stored that is lost by then may be with the source alone. While the source
// is a member, a successor without the answer of a session asks it again, follows
// it again, and takes what it had up to its last position (needsSource). It does
// so for a node lease and a session grace at most, as it waits for a session that
// cannot be dialled: two data nodes may be cut off from each other for longer, and
// by then the clients of a lost session have registered elsewhere.

// unsent returns the migrations of a phase whose request was not sent yet, by
// slot, and counts it as sent.
func (s *migrations) unsent(p phase) (all []*migration) {
	for _, id := range slices.Sorted(maps.Keys(s.running)) {
		if m := s.running[id]; m.phase == p && !m.sent {
			m.sent = true
			all = append(all, m)
		}
	}
	return all
}

// finishAll asks each source to stop, once for all slots that the table has
// just moved from it to this node: a drain costs one request for each batch of
// slots.
func (s *migrations) finishAll() {
	bySource := map[conclave.NodeID][]*migration{}
	for _, m := range s.unsent(finishing) {
		bySource[m.source] = append(bySource[m.source], m)
	}
	for _, source := range sortedNodes(bySource) {
		s.finish(source, bySource[source])
	}
}

// finish sends Finish to one source and posts the result to the loop.
func (s *migrations) finish(source conclave.NodeID, all []*migration) {
	member, listed := s.view.State().Members.Find(source.Name)
	if !listed || member.Node != source {
		for _, m := range all {
			s.leaveSource(m, "the source is not on the member list")
		}
		return
	}
	ask := &wirev1.FinishRequest{Successor: wire.NodeOut(s.config.Node)}
	for _, m := range all {
		ask.Slots = append(ask.Slots, &wirev1.FinishSlot{Slot: uint32(m.r.id), LeaderEpoch: wire.EpochOut(m.epoch)})
	}
	deadline := all[0].deadline // one table granted them all, or one round asks again; counted from before the request is sent
	s.tasks.run(func(ctx context.Context) {
		ctx, cancel := context.WithDeadline(ctx, deadline)
		defer cancel()
		s.config.Trace.Claim(trace.Claim{Kind: trace.Finishing, Peer: source, Count: len(all)})
		res, err := s.data(member.Address).Finish(ctx, connect.NewRequest(ask))
		if err == nil && len(res.Msg.GetSlots()) != len(all) {
			err = fmt.Errorf("asked for %d slots, answered for %d", len(all), len(res.Msg.GetSlots()))
		}
		s.tasks.post(func() {
			for i, m := range all {
				if m.deadline != deadline {
					continue // the source has been asked again since
				}
				if err != nil {
					s.finished(m, nil, err)
				} else {
					s.finished(m, res.Msg.GetSlots()[i], nil)
				}
			}
		})
	})
}

// finished handles the source's answer, or the error of the request.
func (s *migrations) finished(m *migration, answer *wirev1.FinishedSlot, err error) {
	if s.running[m.r.id] != m || m.phase != finishing {
		return
	}
	switch {
	case err != nil:
		s.leaveSource(m, "the source did not finish: "+err.Error())
	case answer.GetAccess() != wirev1.Access_ACCESS_ACCEPT || wire.EpochIn(answer.GetSourceEpoch()) != m.sourceEpoch:
		s.leaveSource(m, "the source does not have the copy that this node follows")
		m.source = conclave.NodeID{} // only now, so that its copy is not asked for either
	default:
		m.phase, m.end, m.ended = applying, answer, time.Now()
	}
}

// finishBefore stops serving because a successor has a higher leader epoch, and
// returns the last position; stopped reports whether this node served until now.
func (r *replica) finishBefore(epoch conclave.Epoch, now time.Time) (out *wirev1.FinishedSlot, stopped bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	out = &wirev1.FinishedSlot{Access: wirev1.Access_ACCESS_MOVED}
	stopped = r.state == slot.Serving
	if (stopped || r.state == slot.Finished) && r.epoch.Less(epoch) && epoch.Plausible(r.epoch) {
		r.finish()
		out = &wirev1.FinishedSlot{
			Access: wirev1.Access_ACCESS_ACCEPT, SourceEpoch: wire.EpochOut(r.epoch),
			Position: r.store.Position(), Counter: r.store.Counter(), UnconfirmedMs: wire.Ms(r.store.Marked(now)), IncompleteMs: wire.Ms(r.store.Incomplete(now)),
		}
		for _, n := range sortedNodes(r.partial) {
			out.Partial = append(out.Partial, wire.NodeOut(n))
		}
	}
	return out, stopped
}

// isFurther reports whether a copy at a position of one epoch's feed is further
// than another.
func isFurther(epoch conclave.Epoch, position uint64, than conclave.Epoch, thanPosition uint64) bool {
	if c := epoch.Compare(than); c != 0 {
		return c > 0
	}
	return position > thanPosition
}

// askHolders asks each holder once, for all slots that were granted to this node
// after a crash, or whose source does not answer.
func (s *migrations) askHolders() {
	byHolder := map[conclave.NodeID][]*migration{}
	for _, m := range s.unsent(collecting) {
		for n := range m.holders {
			byHolder[n] = append(byHolder[n], m)
		}
	}
	for _, n := range sortedNodes(byHolder) {
		s.askHolder(n, byHolder[n])
	}
}

// askHolder requests one holder's copies and posts them to the loop.
func (s *migrations) askHolder(n conclave.NodeID, all []*migration) {
	ask := &wirev1.CollectRequest{Leader: wire.NodeOut(s.config.Node)}
	bySlot := map[int]*migration{}
	for _, m := range all {
		bySlot[m.r.id] = m
		m.r.mu.Lock()
		epoch, position := m.r.copyEpoch, m.r.copyPosition
		m.r.mu.Unlock()
		ask.Slots = append(ask.Slots, &wirev1.HeldCopy{
			Slot: uint32(m.r.id), LeaderEpoch: wire.EpochOut(m.epoch), CopyEpoch: wire.EpochOut(epoch), Position: position,
		})
	}
	member, _ := s.view.State().Members.Find(n.Name)
	deadline := all[0].deadline // one round began them all
	s.tasks.run(func(ctx context.Context) {
		ctx, cancel := context.WithDeadline(ctx, deadline)
		defer cancel()
		err := s.receiveCopies(ctx, member.Address, ask, func(id int, c *store.Loading) {
			if m := bySlot[id]; m != nil {
				s.tasks.post(func() { s.install(m, n, c) })
			}
		})
		if err != nil {
			s.config.Logger.Info("a holder did not send its copies", "holder", n.Name, "slots", len(all), "error", err)
		}
		s.tasks.post(func() {
			for _, m := range all {
				delete(m.holders, n)
			}
		})
	})
}

// receiveCopies calls received with each copy that has arrived as a whole.
func (s *migrations) receiveCopies(ctx context.Context, address string, ask *wirev1.CollectRequest, received func(int, *store.Loading)) error {
	stream, err := s.data(address).Collect(ctx, connect.NewRequest(ask))
	if err != nil {
		return err
	}
	defer func() { _ = stream.Close() }() // it has ended, or is given up
	var loading *store.Loading
	now := time.Now()
	for stream.Receive() {
		e := stream.Msg()
		if e.GetSnapshotBegin() {
			loading = store.NewLoading(s.config.SessionGrace)
		}
		if loading != nil && loading.Add(e, now) {
			received(int(e.GetSlot()), loading)
			loading = nil
		}
	}
	return stream.Err()
}

// install replaces the copy with a holder's if that is further. If the source has
// finished, and only its feed was too slow, a copy of the same feed up to the
// position at which it finished is the rest of what it had: the hand-over goes on
// as if the feed had brought it.
func (s *migrations) install(m *migration, holder conclave.NodeID, c *store.Loading) {
	if s.running[m.r.id] != m || m.phase != collecting {
		return
	}
	r, now := m.r, time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if !isFurther(c.Epoch, c.Position, r.copyEpoch, r.copyPosition) {
		return
	}
	s.config.Logger.Info("another holder's copy is further", "slot", r.id, "epoch", m.epoch, "holder", holder.Name,
		"copy", c.Epoch, "position", c.Position, "had", r.copyEpoch, "at", r.copyPosition)
	r.store = r.store.Install(r.takeover, c, now)
	r.copyEpoch, r.copyPosition = c.Epoch, c.Position
	if m.end != nil && c.Epoch == m.sourceEpoch && c.Position >= m.end.GetPosition() {
		m.phase = applying
	}
}

// endOlder ends what the replica does at older leader epochs than the asking
// leader's. It returns its copy, with the epoch of that, if it is complete and
// further than the leader's, otherwise a zero epoch; and the epoch at which the
// replica served until now, or zero.
func (r *replica) endOlder(in *wirev1.HeldCopy, now time.Time) (copied conclave.Epoch, whole store.Snapshot, finished conclave.Epoch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	epoch := wire.EpochIn(in.GetLeaderEpoch())
	if !r.epoch.Less(epoch) || epoch.Less(r.leaderEpoch) || !epoch.Plausible(r.epoch) && !epoch.Plausible(r.leaderEpoch) {
		return copied, whole, finished
	}
	if r.state == slot.Serving {
		finished = r.epoch
		r.finish()
	}
	if r.leaderEpoch.Less(epoch) {
		r.detachAt(now)
		r.unfollow()
	}
	if !r.copyEpoch.IsZero() && isFurther(r.copyEpoch, r.copyPosition, wire.EpochIn(in.GetCopyEpoch()), in.GetPosition()) {
		copied, whole = r.copyEpoch, r.store.Snapshot(r.copyPosition, now)
	}
	return copied, whole, finished
}
