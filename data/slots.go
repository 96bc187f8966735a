package data

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"conclave"
	"conclave/internal/signal"
	"conclave/slot"
	"conclave/wire"
)

// slots is the state loop: one goroutine decides for all slots of this node. It
// applies the slot table and advances the migrations. Everything that takes
// time (Finish at a source, diffs, feeds) runs elsewhere and returns its result
// as a function that the loop calls.
type slots struct {
	*migrations
	replicas *replicas
	follow   func(map[conclave.NodeID]map[int]conclave.Epoch) // sets which leaders the copies follow

	applied slot.Table
	leaving map[int]time.Time // slots that the table has given to another node and whose Finish has not come, and since when
}

// run is the loop (syncWatch in article 002). It waits for its tasks at the
// end.
func (s *slots) run(ctx context.Context) {
	s.tasks.ctx = ctx
	defer s.tasks.running.Wait()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		changed := s.view.Changed()
		s.apply(s.view.State())
		if next := s.round(time.Now()); !next.IsZero() {
			timer.Reset(max(0, time.Until(next)))
		}
		select {
		case <-changed:
		case <-s.tasks.wake.C():
		case <-timer.C:
		case <-ctx.Done():
			return
		}
	}
}

// round handles the tasks' results and advances every migration. It returns the
// next deadline, or zero if there is none.
func (s *slots) round(now time.Time) (next time.Time) {
	for _, f := range s.tasks.results() {
		f()
	}
	earliest := func(t time.Time) {
		if !t.IsZero() && (next.IsZero() || t.Before(next)) {
			next = t
		}
	}
	for _, id := range slices.Sorted(maps.Keys(s.running)) {
		earliest(s.advance(s.running[id], now))
	}
	s.finishAll()
	s.askHolders()
	for _, id := range slices.Sorted(maps.Keys(s.leaving)) {
		earliest(s.leave(id, now))
	}
	if s.refollow {
		s.refollow = false
		s.follow(s.wanted())
	}
	return next
}

// apply applies a newer table; each changed row determines this node's place in
// its slot.
func (s *slots) apply(st wire.State) {
	table := st.Table
	if !s.applied.Epoch.Less(table.Epoch) || len(table.Slots) == 0 {
		return // known already; or sealed by a new leader that has decided nothing yet
	}
	if s.replicas.all() == nil {
		list := make([]*replica, len(table.Slots))
		for i := range list {
			list[i] = &replica{id: i, grace: s.config.SessionGrace, maxList: int(s.config.MaxListBytes), trace: s.config.Trace, watchers: &s.feeds.watchers}
		}
		s.replicas.set(list)
	}
	now := time.Now()
	all := s.replicas.all()
	changed := false
	for i, row := range table.Slots {
		if i >= len(all) {
			s.config.Logger.Error("the slot table has grown; its size is fixed when a cluster is made", "slots", len(table.Slots), "known", len(all))
			break
		}
		if i < len(s.applied.Slots) && row.Equal(s.applied.Slots[i]) {
			continue
		}
		s.step(row, all[i], now)
		changed = true
	}
	s.applied = table
	s.finishAll()
	s.askHolders()
	if changed {
		s.refollow = true
		s.feeds.wake()
		s.beatSoon()
	}
}

// step applies one row. The places are checked in this order:
//
//	leader      a new epoch is a grant, even if this node led the slot before
//	source      continues to serve the old epoch until Finish comes
//	follower    the copy follows the leader; so does a successor's
//	none        the copy is kept until a node with a complete copy serves
func (s *slots) step(row slot.Slot, r *replica, now time.Time) {
	me := s.config.Node
	if row.Leader == me {
		delete(s.leaving, r.id)
		r.mu.Lock()
		granted := r.epoch.Less(row.LeaderEpoch)
		r.mu.Unlock()
		if granted {
			s.grant(row, r, now)
		}
		return
	}
	if was := s.ledElsewhere(row, r, now); was == slot.Serving {
		s.config.Logger.Info("another node leads the slot", "slot", r.id, "leader", row.Leader.Name, "epoch", row.LeaderEpoch, "phase", row.Phase)
	}
}

// ledElsewhere applies a row that another node leads. It returns the replica's
// previous state.
func (s *slots) ledElsewhere(row slot.Slot, r *replica, now time.Time) (was slot.ReportState) {
	me := s.config.Node
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
		r.enter("", r.epoch)
		r.follow(row.Leader, row.LeaderEpoch, now)
	case row.Phase == slot.Stable || row.Phase == slot.Preparing:
		r.forget()
	default:
		r.unfollow() // the copy may be the last complete one
	}
	return was
}

// stopLeading ends a leadership that the table has ended, and keeps the copy.
// The replica's lock is held.
func (s *slots) stopLeading(r *replica) {
	delete(s.leaving, r.id)
	delete(s.running, r.id)
	switch r.state {
	case slot.Serving:
		r.finish()
	case slot.Migrating:
		r.enter("", r.epoch)
	}
}

// leave limits how long a source serves an epoch that the table has ended:
// until Finish comes, or one lease. The successor does not wait that long: a diff is
// a fence, so the sessions refuse the source.
func (s *slots) leave(id int, now time.Time) time.Time {
	r := s.replicas.of(id)
	end := s.leaving[id].Add(s.lease())
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state != slot.Serving || !now.Before(end) {
		r.finish()
		delete(s.leaving, id)
		s.beatNow()
		return time.Time{}
	}
	return end
}

// wanted returns the leaders that this node's copies follow, with the slots and
// their epochs.
func (s *slots) wanted() map[conclave.NodeID]map[int]conclave.Epoch {
	out := map[conclave.NodeID]map[int]conclave.Epoch{}
	for _, r := range s.replicas.all() {
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

// tasks are the calls that the state loop has in progress. Each returns its
// result as a function, which the loop calls.
type tasks struct {
	wake    signal.Signal   // set when the loop has something to do
	ctx     context.Context // of the loop; the calls end with it
	running sync.WaitGroup

	mu    sync.Mutex // guards inbox
	inbox []func()
}

// run runs a call beside the loop.
func (t *tasks) run(call func(ctx context.Context)) { t.running.Go(func() { call(t.ctx) }) }

// post queues a result for the loop.
func (t *tasks) post(f func()) {
	t.mu.Lock()
	t.inbox = append(t.inbox, f)
	t.mu.Unlock()
	t.wake.Set()
}

// results returns what was posted since the last call.
func (t *tasks) results() []func() {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := t.inbox
	t.inbox = nil
	return all
}
