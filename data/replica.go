package data

import (
	"sync"
	"sync/atomic"
	"time"

	"conclave"
	"conclave/data/store"
	"conclave/internal/trace"
	"conclave/slot"
	wirev1 "conclave/wire/v1"
)

// replicas are the slots of this node. There are none before the first slot
// table.
type replicas struct {
	list atomic.Pointer[[]*replica] // set once, by the first table
}

// all returns the replicas by slot, or nil before the first table.
func (rs *replicas) all() []*replica {
	if p := rs.list.Load(); p != nil {
		return *p
	}
	return nil
}

// of returns one slot's replica, or nil if there is no such slot.
func (rs *replicas) of(id int) *replica {
	if all := rs.all(); id < len(all) {
		return all[id]
	}
	return nil
}

// set makes the replicas.
func (rs *replicas) set(all []*replica) { rs.list.Store(&all) }

// report returns what a beat carries: every slot that this node has a copy of,
// and how many registrations it serves. lag returns how long a leader has sent
// nothing.
func (rs *replicas) report(lag func(conclave.NodeID) time.Duration, now time.Time) (reports []*wirev1.SlotReport, load uint32) {
	for _, r := range rs.all() {
		if rep := r.report(lag, now); rep != nil {
			reports = append(reports, rep)
		}
		r.mu.Lock()
		if r.state == slot.Serving {
			load += uint32(r.store.Visible())
		}
		r.mu.Unlock()
	}
	return reports, load
}

// replica is one slot on this node: its copies, and what may be done with them
// (SlotState in article 002). Handlers and streams take its lock briefly, to
// read or to change something; only the state loop (slots.go) changes its
// state.
type replica struct {
	id       int
	grace    time.Duration // the session grace
	maxList  int           // Config.MaxListBytes
	trace    trace.Sink    // claims are made with mu held
	watchers *watchers     // the sessions' feeds

	mu sync.Mutex // guards the fields below; only the locks of feeds, owners and the differ's queues are taken inside it; never held across I/O

	// state is Migrating, Serving or Finished; "" if this node follows the slot or has
	// no place in it (see report). epoch is the leader epoch of that state, or of the last
	// of them.
	state slot.ReportState
	epoch conclave.Epoch
	store *store.Store // nil if there is no copy

	// The copy is complete up to this position of the feed of this leader
	// epoch. Zero epoch: there is no complete copy.
	copyEpoch    conclave.Epoch
	copyPosition uint64

	// The leader whose feed the copy follows; zero if none. A successor
	// continues to follow the source until it has applied the source's last
	// position.
	leader      conclave.NodeID
	leaderEpoch conclave.Epoch
	loading     *store.Loading      // a snapshot that is being received
	fresh       time.Time           // when the copy was last known to be current
	attached    bool                // the feed is being read and the copy is current
	takeover    *store.PendingMerge // open while migrating: begun with the grant

	base     int64                                   // the floor of the versions at epoch
	first    bool                                    // nothing was published in the slot before this epoch
	dirty    map[conclave.NodeID]int                 // sessions to compare with, and for how many rounds of repair; see repairWith
	writing  map[conclave.NodeID]writing             // sessions that wrote in the last round of repair, or since then
	reported map[conclave.NodeID]map[store.Key]int64 // removals that one repair has reported; see confirmRemovals
	numbers  map[conclave.NodeID]uint64              // the highest request number accepted from each session at epoch
	partial  map[conclave.NodeID]bool                // sessions that were given up when it began to serve (owners.go)
	streams  map[*feedStream]uint64                  // followers' streams, and how far each has read
}

// leads reports whether this node is the slot's leader at r.epoch, serving or
// not yet. mu is held.
func (r *replica) leads() bool { return r.state == slot.Migrating || r.state == slot.Serving }

// access checks a request that names a leader epoch. mu is held, and stays held
// until the read or write is done, so that nothing changes in between (article
// 002: no read spans a change of the leader).
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

// ensureStore returns the store; it makes one if there is none.
func (r *replica) ensureStore() *store.Store {
	if r.store == nil {
		r.store = store.New(r.grace)
	}
	return r.store
}

// enter is the only way from one state, or one leader epoch, to another. It
// ends what belongs to the leadership that is left: reads and writes, the
// sessions' feeds, the pending merges (so that no diff and no takeover outlives
// the leadership for which it was begun), the sessions' request numbers, the
// reported removals, and the list of sessions that were given up, which a
// finished slot keeps for its successor. The copy stays, with its last position.
// Migrating and serving at one epoch are one leadership: only the takeover ends
// between them. mu is held.
func (r *replica) enter(state slot.ReportState, epoch conclave.Epoch) {
	if r.state == slot.Serving {
		r.watchers.ended(r.id, r.epoch)
		r.copyEpoch, r.copyPosition = r.epoch, r.store.Position()
	}
	led, before := r.leads(), r.epoch
	r.state, r.epoch = state, epoch
	sameLeadership := led && r.leads() && before == epoch
	if !sameLeadership {
		r.numbers, r.reported = nil, nil
		if state != slot.Finished {
			r.partial = nil
		}
	}
	switch {
	case r.store == nil:
	case sameLeadership:
		r.store.End(r.takeover)
	default:
		r.store.EndAll()
	}
	r.takeover = nil
	if state == slot.Migrating {
		r.takeover = r.ensureStore().Begin()
	}
	for f := range r.streams {
		f.mark(r.id) // the rest of the feed, its end or its beginning
	}
}

// finish ends reads and writes at this epoch and keeps the copy. mu is held.
func (r *replica) finish() {
	if r.state != slot.Serving {
		return
	}
	r.trace.Claim(trace.Claim{Kind: trace.Finished, Slot: r.id, Epoch: r.epoch, Version: r.store.Counter()})
	r.enter(slot.Finished, r.epoch)
}

// forget drops the copy.
func (r *replica) forget() {
	r.enter("", conclave.Epoch{})
	r.store = nil
	r.copyEpoch, r.copyPosition = conclave.Epoch{}, 0
	r.unfollow()
	r.dirty, r.writing, r.base = nil, nil, 0
}

// follow makes the copy follow a leader's feed.
func (r *replica) follow(leader conclave.NodeID, epoch conclave.Epoch, now time.Time) {
	if r.leader == leader && r.leaderEpoch == epoch {
		return
	}
	r.leader, r.leaderEpoch = leader, epoch
	r.loading, r.attached, r.fresh = nil, false, now
}

// unfollow makes the copy follow no leader.
func (r *replica) unfollow() {
	r.leader, r.leaderEpoch = conclave.NodeID{}, conclave.Epoch{}
	r.loading, r.attached = nil, false
}

// behind returns for how long the copy has not been known to be current.
func (r *replica) behind(now time.Time) time.Duration {
	if r.attached {
		return 0
	}
	return max(0, now.Sub(r.fresh))
}

// position returns the copy's position in the feed that it leads or follows.
func (r *replica) position() uint64 {
	if r.state == slot.Serving || r.state == slot.Finished {
		return r.store.Position()
	}
	return r.copyPosition
}

// reached reports whether the copy is complete up to a position of an epoch.
func (r *replica) reached(epoch conclave.Epoch, position uint64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.copyEpoch == epoch && r.copyPosition >= position
}

// publish notifies the followers' and the sessions' feeds of a change. mu is
// held; call feeds.wake after it has been released.
func (r *replica) publish() {
	ids := r.store.TakeChanged()
	for f := range r.streams {
		f.mark(r.id)
	}
	if len(ids) > 0 && r.state == slot.Serving {
		r.watchers.change(r.id, r.epoch, r.store.Position(), ids)
	}
}

// report returns what the next beat reports about the slot, or nil if there is
// nothing to report.
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
		// A copy is reported with the epoch at which it was built. If no copy
		// with a newer epoch is left, it is the best there is.
		out.State, epoch = string(slot.Following), r.leaderEpoch
		if !r.copyEpoch.IsZero() {
			out.State, epoch = string(slot.CaughtUp), r.copyEpoch
			out.LagMs = max(r.behind(now), lag(r.leader)).Milliseconds()
		}
	}
	out.LeaderEpoch = &wirev1.Epoch{Term: epoch.Term, Seq: epoch.Seq}
	return out
}

// repairWith records that a slot should be compared with a session. mu is held.
func (r *replica) repairWith(session conclave.NodeID) {
	if r.dirty == nil {
		r.dirty = map[conclave.NodeID]int{}
	}
	if _, due := r.dirty[session]; !due {
		r.dirty[session] = 0
	}
}

// confirmRemovals returns those removals of a repair that the repair before it
// reported, too. A session that drops a registration writes that with its
// cause, and the write may still be on its way; so a copy is removed as
// "missing in a diff" only when two diffs, one round apart, report it. mu is
// held.
func (r *replica) confirmRemovals(session conclave.NodeID, removed []store.Copy) (confirmed []store.Copy) {
	before := r.reported[session]
	delete(r.reported, session)
	for _, c := range removed {
		if v, ok := before[c.Key]; ok && v == c.Version {
			confirmed = append(confirmed, c)
			continue
		}
		if r.reported == nil {
			r.reported = map[conclave.NodeID]map[store.Key]int64{}
		}
		if r.reported[session] == nil {
			r.reported[session] = map[store.Key]int64{}
		}
		r.reported[session][c.Key] = c.Version
		r.repairWith(session)
	}
	return confirmed
}
