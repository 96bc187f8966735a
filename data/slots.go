package data

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"conclave"
	"conclave/slot"
	"conclave/wire"
)

// slots is the state loop: one goroutine decides for all slots of this node. It
// applies the table, and carries migrations on. Everything that takes time
// (asking the source to finish, diffs, feeds) happens elsewhere and comes back
// as a message.
type slots struct {
	server *Server
	bell   bell
	list   atomic.Pointer[[]*replica] // set once, when the first table is known

	mu    sync.Mutex // guards inbox
	inbox []func()   // what tasks have to say; run by the loop

	// The loop's own.
	ctx        context.Context // of Run: the tasks' calls end with it
	tasks      sync.WaitGroup
	applied    slot.Table
	migrations map[int]*migration
	leaving    map[int]time.Time // slots that another took over, whose Finish has not come
	refollow   bool              // whom copies follow has changed
}

func newSlots(s *Server) *slots {
	return &slots{server: s, bell: newBell(), migrations: map[int]*migration{}, leaving: map[int]time.Time{}}
}

// all are the replicas, by slot; nil before the first table.
func (s *slots) all() []*replica {
	if p := s.list.Load(); p != nil {
		return *p
	}
	return nil
}

// of is one slot's replica; nil when there is no such slot.
func (s *slots) of(id int) *replica {
	if all := s.all(); id < len(all) {
		return all[id]
	}
	return nil
}

// post hands a task's result to the loop.
func (s *slots) post(f func()) {
	s.mu.Lock()
	s.inbox = append(s.inbox, f)
	s.mu.Unlock()
	s.bell.ring()
}

// run is the loop; it joins its tasks.
func (s *slots) run(ctx context.Context) {
	s.ctx = ctx
	defer s.tasks.Wait()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		changed := s.server.view.Changed()
		s.apply(s.server.view.State())
		if next := s.round(time.Now()); !next.IsZero() {
			timer.Reset(max(0, time.Until(next)))
		}
		select {
		case <-changed:
		case <-s.bell:
		case <-timer.C:
		case <-ctx.Done():
			return
		}
	}
}

// round hears the tasks and carries every migration one step on. It says when
// the next deadline is.
func (s *slots) round(now time.Time) (next time.Time) {
	s.mu.Lock()
	inbox := s.inbox
	s.inbox = nil
	s.mu.Unlock()
	for _, f := range inbox {
		f()
	}
	earliest := func(t time.Time) {
		if !t.IsZero() && (next.IsZero() || t.Before(next)) {
			next = t
		}
	}
	for _, id := range slices.Sorted(maps.Keys(s.migrations)) {
		earliest(s.advance(s.migrations[id], now))
	}
	for _, id := range slices.Sorted(maps.Keys(s.leaving)) {
		earliest(s.leave(id, now))
	}
	if s.refollow {
		s.refollow = false
		s.server.follows.set(s.wanted())
	}
	return next
}

// apply takes a newer table: each changed row decides anew what this node is to
// its slot.
func (s *slots) apply(st wire.State) {
	table := st.Table
	if !s.applied.Epoch.Less(table.Epoch) || len(table.Slots) == 0 {
		return // known; or sealed by a new leader before anything was decided
	}
	if s.all() == nil {
		list := make([]*replica, len(table.Slots))
		for i := range list {
			list[i] = &replica{id: i, grace: s.server.config.SessionGrace, trace: s.server.config.Trace}
		}
		s.list.Store(&list)
	}
	now := time.Now()
	all := s.all()
	poke := false
	for i, row := range table.Slots {
		if i >= len(all) {
			s.server.log.Error("the slot table has grown; its size is fixed when a cluster is made", "slots", len(table.Slots), "known", len(all))
			break
		}
		if i < len(s.applied.Slots) && row.Equal(s.applied.Slots[i]) {
			continue
		}
		s.step(row, all[i], now)
		poke = true
	}
	s.applied = table
	s.finishAll()
	if poke {
		s.refollow = true
		s.server.ring()
		s.server.poke()
	}
}

// step applies one row. The places, in the order in which they are judged:
//
//	leader      a new epoch is a grant, also to who led the slot before
//	source      goes on serving the old epoch until Finish comes
//	follower    and successor: the copy follows the leader
//	none        the copy is kept until somebody serves who has it all
func (s *slots) step(row slot.Slot, r *replica, now time.Time) {
	me := s.server.config.Node
	if row.Leader == me {
		delete(s.leaving, r.id)
		if r.epoch.Less(row.LeaderEpoch) {
			s.grant(row, r, now)
		}
		return
	}
	if was := s.follower(row, r, now); was == slot.Serving {
		s.server.log.Info("slot is led elsewhere", "slot", r.id, "leader", row.Leader.Name, "epoch", row.LeaderEpoch, "phase", row.Phase)
	}
}

// follower places a replica that this node does not lead; it says what it was.
func (s *slots) follower(row slot.Slot, r *replica, now time.Time) (was slot.ReportState) {
	me := s.server.config.Node
	r.mu.Lock()
	defer r.mu.Unlock()
	if row.Phase == slot.Switching && row.Source == me && r.state == slot.Serving && r.epoch == row.SourceEpoch {
		s.leaving[r.id] = now
		return ""
	}
	was = r.state
	s.stopLeading(r)
	switch {
	case row.Phase == slot.Switching && row.Source == me:
		r.unfollow()
	case row.Holds(me):
		r.enter("", r.epoch, &s.server.watchers)
		r.follow(row.Leader, row.LeaderEpoch, now)
	case row.Phase == slot.Stable || row.Phase == slot.Preparing:
		r.forget(&s.server.watchers)
	default:
		r.unfollow() // the copy may be the last one that is complete
	}
	return was
}

// stopLeading ends a leadership that the table has ended; the copy is kept. The
// replica's lock is held.
func (s *slots) stopLeading(r *replica) {
	delete(s.leaving, r.id)
	delete(s.migrations, r.id)
	switch r.state {
	case slot.Serving:
		r.finish(&s.server.watchers)
	case slot.Migrating:
		r.enter("", r.epoch, &s.server.watchers)
	}
}

// leave bounds how long a source goes on serving an epoch that is over in the
// table: until Finish comes, or for one lease. The successor does not wait so
// long; its diffs are fences.
func (s *slots) leave(id int, now time.Time) time.Time {
	r := s.of(id)
	end := s.leaving[id].Add(s.server.lease())
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state != slot.Serving || !now.Before(end) {
		r.finish(&s.server.watchers)
		delete(s.leaving, id)
		s.server.poke()
		return time.Time{}
	}
	return end
}

// wanted lists whom this node's copies follow.
func (s *slots) wanted() map[conclave.NodeID]map[int]conclave.Epoch {
	out := map[conclave.NodeID]map[int]conclave.Epoch{}
	for _, r := range s.all() {
		r.mu.Lock()
		leader, epoch := r.leader, r.leaderEpoch
		r.mu.Unlock()
		if leader.IsZero() {
			continue
		}
		if out[leader] == nil {
			out[leader] = map[int]conclave.Epoch{}
		}
		out[leader][r.id] = epoch
	}
	return out
}
