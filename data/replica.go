package data

import (
	"sync"
	"time"

	"conclave"
	"conclave/internal/trace"
	"conclave/slot"
	wirev1 "conclave/wire/v1"
)

// replica is one slot on this node: its copies and what may be done with them.
// There is no goroutine for a slot. Handlers and streams take its lock for one
// short look or change; only the state loop (slots.go) changes its state.
type replica struct {
	id    int
	grace time.Duration
	trace trace.Sink // claims are made with the lock held

	mu sync.Mutex // guards the rest; the innermost but for feeds' own; never held across I/O

	// state is what this node says of the slot; "" when it has no place here.
	// epoch is the leader epoch that Migrating, Serving or Finished speaks of.
	state slot.ReportState
	epoch conclave.Epoch
	store *Store // nil when there is no copy

	// The copy's place in the feed it was built from: complete as of this
	// position of this leader epoch. Zero epoch: not complete, or none.
	copyEpoch    conclave.Epoch
	copyPosition uint64

	// Whom the copy follows, while it does. A successor that takes over goes on
	// following the source until it has applied the source's last position.
	leader      conclave.NodeID
	leaderEpoch conclave.Epoch
	loading     *Store    // a snapshot on its way
	fresh       time.Time // when the copy was last known to be current
	attached    bool      // the feed is being read and the copy is current
	takeover    *flight   // open while migrating: begun when the grant came

	base    int64                                 // the floor of the versions at epoch
	first   bool                                  // nothing was published in the slot before epoch
	dirty   map[conclave.NodeID]bool              // sessions to compare with; see repair.go
	doubts  map[conclave.NodeID]map[copyKey]int64 // copies that a session once did not know; see repair.go
	numbers map[conclave.NodeID]uint64            // the newest request that was taken of each session at epoch
	partial map[conclave.NodeID]bool              // sessions that were given up when it began to serve; see unreached.go
	streams map[*feedStream]uint64                // who follows this leader, and how far each has read
}

// leads says that this node is the slot's leader at epoch, serving or not yet.
func (r *replica) leads() bool { return r.state == slot.Migrating || r.state == slot.Serving }

// access judges a request that names a leader epoch, with the lock held. Since
// the lock is held until what is read or written is done, nothing changes
// between the check and the end of it (article 002: no read straddles a change
// of the leader).
func (r *replica) access(epoch conclave.Epoch, writes bool) (wirev1.Access, conclave.Epoch) {
	switch {
	case !r.leads():
		return wirev1.Access_ACCESS_MOVED, conclave.Epoch{}
	case r.epoch != epoch:
		return wirev1.Access_ACCESS_MISMATCH, r.epoch
	case r.state == slot.Migrating && !writes:
		return wirev1.Access_ACCESS_MIGRATING, r.epoch
	}
	return wirev1.Access_ACCESS_ACCEPT, r.epoch
}

// hold makes sure that there is a store.
func (r *replica) hold() *Store {
	if r.store == nil {
		r.store = NewStore(r.grace)
	}
	return r.store
}

// enter is the only way from one state, or one leader epoch, to another. It ends
// what belongs to the leadership that is left: reads and writes, the sessions'
// feeds, the flights (so no diff and no takeover outlives the leadership that
// asked for it), the sessions' request numbers, the doubts, the note of who was
// given up. The copy stays, with
// its last position. Migrating and serving at one epoch are one leadership: only
// the takeover ends between them. The replica's lock is held.
func (r *replica) enter(state slot.ReportState, epoch conclave.Epoch, w *watchers) {
	if r.state == slot.Serving {
		w.ended(r.id, r.epoch)
		r.copyEpoch, r.copyPosition = r.epoch, r.store.log.position
	}
	led, before := r.leads(), r.epoch
	r.state, r.epoch = state, epoch
	goesOn := led && r.leads() && before == epoch
	if !goesOn {
		r.numbers, r.doubts, r.partial = nil, nil, nil
	}
	switch {
	case r.store == nil:
	case goesOn:
		r.store.End(r.takeover)
	default:
		r.store.Ground()
	}
	r.takeover = nil
	if state == slot.Migrating {
		r.takeover = r.hold().Begin()
	}
	for f := range r.streams {
		f.mark(r.id) // what is left of the feed, or that it ends or begins
	}
}

// forget gives the copy up.
func (r *replica) forget(w *watchers) {
	r.enter("", conclave.Epoch{}, w)
	r.store = nil
	r.copyEpoch, r.copyPosition = conclave.Epoch{}, 0
	r.unfollow()
	r.dirty, r.base = nil, 0
}

// follow turns the copy to a leader's feed.
func (r *replica) follow(leader conclave.NodeID, epoch conclave.Epoch, now time.Time) {
	if r.leader == leader && r.leaderEpoch == epoch {
		return
	}
	r.leader, r.leaderEpoch = leader, epoch
	r.loading, r.attached, r.fresh = nil, false, now
}

func (r *replica) unfollow() {
	r.leader, r.leaderEpoch = conclave.NodeID{}, conclave.Epoch{}
	r.loading, r.attached = nil, false
}

// behind is how long the copy has not been known to be current.
func (r *replica) behind(now time.Time) time.Duration {
	if r.attached {
		return 0
	}
	return max(0, now.Sub(r.fresh))
}

// position is where the copy stands in the feed that it leads or follows.
func (r *replica) position() uint64 {
	if r.state == slot.Serving || r.state == slot.Finished {
		return r.store.log.position
	}
	return r.copyPosition
}

// publish tells the followers, after a change; the returned ids are for the
// sessions. With the lock held; ring the bells after it was released.
func (r *replica) publish(w *watchers) {
	ids := r.store.TakeChanged()
	for f := range r.streams {
		f.mark(r.id)
	}
	if len(ids) > 0 && r.state == slot.Serving {
		w.change(r.id, r.epoch, r.store.log.position, ids)
	}
}

// report is what the next beat says of the slot; nil when there is nothing to
// say.
func (r *replica) report(lag func(conclave.NodeID) time.Duration, now time.Time) *wirev1.SlotReport {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state == "" && r.copyEpoch.IsZero() && r.leader.IsZero() {
		return nil
	}
	out := &wirev1.SlotReport{Slot: uint32(r.id), State: string(r.state), Position: r.position()}
	epoch := r.epoch
	if r.store != nil {
		out.Counter = r.store.Counter()
	}
	if !r.leads() && r.state != slot.Finished {
		// A copy is told by the epoch that it was built at: if nobody with a
		// newer one is left, it is the best there is.
		out.State, epoch = string(slot.Following), r.leaderEpoch
		if !r.copyEpoch.IsZero() {
			out.State, epoch = string(slot.CaughtUp), r.copyEpoch
			out.LagMs = max(r.behind(now), lag(r.leader)).Milliseconds()
		}
	}
	out.LeaderEpoch = &wirev1.Epoch{Term: epoch.Term, Seq: epoch.Seq}
	return out
}
