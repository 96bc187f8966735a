package data

import (
	"context"
	"time"

	"connectrpc.com/connect"

	"conclave"
	"conclave/data/store"
	"conclave/slot"
	"conclave/wire"
	wirev1 "conclave/wire/v1"
)

// After a crash, the meta leader grants a slot by what it knows of the copies:
// their positions come from heartbeats, so any other holder of the slot may be
// further than the node that is granted it. What that holder is further by may
// be with no session any more. So the new leader first asks every other live
// holder in its row, and takes the furthest copy as a whole, as a follower
// installs a snapshot; then it compares with the sessions (docs/adr/0064). The
// successor of a source that does not answer does so as well.
//
// A holder that does not answer within FinishTimeout is left out, as a silent
// source is. A slot without another live holder waits for nothing.

// isFurther reports whether a copy at a position of one epoch's feed is further
// than another.
func isFurther(epoch conclave.Epoch, position uint64, than conclave.Epoch, thanPosition uint64) bool {
	if c := epoch.Compare(than); c != 0 {
		return c > 0
	}
	return position > thanPosition
}

// collectInstead makes a migration whose source has not answered, and was not
// asked again, ask the other holders once: the source may have died, and the
// feed that this node had of it may have been slow.
func (s *migrations) collectInstead(m *migration) {
	if m.source.IsZero() || m.again || m.collected {
		return
	}
	m.collected = true
	m.holders = s.otherHolders(m.row)
	delete(m.holders, m.source)
	if len(m.holders) > 0 {
		m.phase, m.sent, m.deadline = collecting, false, time.Now().Add(s.config.FinishTimeout)
	}
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
	if m.position > 0 && c.Epoch == m.sourceEpoch && c.Position >= m.position {
		m.phase = applying
	}
}

// yield ends what the replica does at older leader epochs than the asking
// leader's, and returns its copy if that is complete and further. finished is
// the epoch at which it served until now, or zero.
func (r *replica) yield(in *wirev1.HeldCopy, now time.Time) (events []*wirev1.ReplicateEvent, finished conclave.Epoch) {
	epoch, whole, finished := r.endOlder(in, now)
	if epoch.IsZero() {
		return nil, finished
	}
	return whole.Messages(r.id, epoch), finished
}

// endOlder is yield up to the copy, and its epoch; zero if it is not further.
func (r *replica) endOlder(in *wirev1.HeldCopy, now time.Time) (copied conclave.Epoch, whole store.Snapshot, finished conclave.Epoch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	epoch := wire.EpochIn(in.GetLeaderEpoch())
	if !r.epoch.Less(epoch) || epoch.Less(r.leaderEpoch) || !epoch.Plausible(r.epoch) && !epoch.Plausible(r.leaderEpoch) {
		return conclave.Epoch{}, whole, conclave.Epoch{}
	}
	if r.state == slot.Serving {
		finished = r.epoch
		r.finish()
	}
	if r.leaderEpoch.Less(epoch) {
		r.detachAt(now)
		r.unfollow()
	}
	if r.copyEpoch.IsZero() || !isFurther(r.copyEpoch, r.copyPosition, wire.EpochIn(in.GetCopyEpoch()), in.GetPosition()) {
		return conclave.Epoch{}, whole, finished
	}
	return r.copyEpoch, r.store.Snapshot(r.copyPosition, now), finished
}
