package slot

import (
	"slices"

	"conclave"
)

// maxCounter is the highest reported version that is accepted. A wrong report
// must not use up the range of integers that JavaScript can represent.
const maxCounter = 1 << 52

// change alters a row. It is the only way to do so: it updates the loads and
// records the move.
func (a *planner) change(m Move, alter func(*Slot)) {
	a.count(m.Slot, -1)
	alter(&a.t.Slots[m.Slot])
	a.count(m.Slot, +1)
	a.moves = append(a.moves, m)
}

func (a *planner) count(i, by int) {
	s := &a.t.Slots[i]
	if s.Phase == Preparing {
		a.leads[s.Successor] += by
	} else {
		a.leads[s.Leader] += by
	}
	for _, f := range s.Followers {
		if f != s.Leaving {
			a.follows[f] += by
		}
	}
}

// grant begins a new leadership: it sets a new leader epoch and a version base
// above every version that an older leader may have issued.
func (a *planner) grant(s *Slot, phase Phase, to conclave.NodeID) {
	s.Source, s.SourceEpoch = conclave.NodeID{}, conclave.Epoch{}
	if phase == Switching {
		s.Source, s.SourceEpoch = s.Leader, s.LeaderEpoch
	}
	s.Phase, s.Leader, s.LeaderEpoch, s.Successor = phase, to, a.in.Next, conclave.NodeID{}
	s.First = false
	s.VersionBase = nextBase(max(s.VersionBase, a.counters[s.ID]))
}

// nextBase returns the first version base above counter.
func nextBase(counter int64) int64 {
	return (counter/conclave.VersionBase + 1) * conclave.VersionBase
}

func (a *planner) prepare(s Slot, successor conclave.NodeID, why string) {
	a.change(Move{Slot: s.ID, Kind: Prepared, From: s.Leader, To: successor, Why: why}, func(s *Slot) {
		s.Phase, s.Successor = Preparing, successor
		s.unfollow(successor)
	})
}

func (a *planner) follow(s Slot, f conclave.NodeID, why string) {
	a.change(Move{Slot: s.ID, Kind: Followed, To: f, Why: why}, func(s *Slot) {
		s.follow(f)
		if s.Leaving == f {
			s.Leaving = conclave.NodeID{}
		}
	})
}

func (a *planner) unfollow(s Slot, f conclave.NodeID, why string) {
	a.change(Move{Slot: s.ID, Kind: Unfollowed, From: f, Why: why}, func(s *Slot) { s.unfollow(f) })
}

func (s *Slot) follow(n conclave.NodeID) {
	if i, found := slices.BinarySearchFunc(s.Followers, n, conclave.NodeID.Compare); !found {
		s.Followers = slices.Insert(s.Followers, i, n)
	}
}

func (s *Slot) unfollow(n conclave.NodeID) {
	if i, found := slices.BinarySearchFunc(s.Followers, n, conclave.NodeID.Compare); found {
		s.Followers = slices.Delete(s.Followers, i, i+1)
	}
	if s.Leaving == n {
		s.Leaving = conclave.NodeID{}
	}
}

// up reports whether this incarnation is alive.
func (a *planner) up(n conclave.NodeID) bool { return !n.IsZero() && a.live[n.Name] == n }

// mayHold reports whether n is alive and not forbidden.
func (a *planner) mayHold(n conclave.NodeID) bool { return a.up(n) && !a.forbidden[n.Name] }

// mayLead reports whether n may hold a copy and is heard.
func (a *planner) mayLead(n conclave.NodeID) bool { return a.mayHold(n) && !a.unheard[n.Name] }

func (a *planner) report(slot int, n conclave.NodeID) Report { return a.reports[reportKey{slot, n}] }

func (a *planner) caughtUp(s Slot, n conclave.NodeID) bool {
	return a.report(s.ID, n).caughtUpWith(s.LeaderEpoch)
}

// keptFollowers returns the followers that the slot should keep: those that are
// alive, not forbidden and not leaving.
func (a *planner) keptFollowers(s Slot) []conclave.NodeID {
	return those(s.Followers, func(n conclave.NodeID) bool { return n != s.Leaving && a.mayHold(n) })
}

// fewest returns the open node with the smallest load for which fits returns
// true, or the zero NodeID.
func (a *planner) fewest(load map[conclave.NodeID]int, s Slot, fits func(conclave.NodeID) bool) (best conclave.NodeID) {
	for _, i := range a.rotation(s.ID) {
		if n := a.open[i]; fits(n) && (best.IsZero() || load[n] < load[best]) {
			best = n
		}
	}
	return best
}

// newFollower returns the node that should be added to the followers of s, or
// the zero NodeID.
func (a *planner) newFollower(s Slot) conclave.NodeID {
	return a.fewest(a.follows, s, func(n conclave.NodeID) bool { return !s.Names(n.Name) })
}

// rotation returns the indices of the open nodes in an order that differs from
// slot to slot. It breaks ties, so that the slots of one leader are followed by
// all other nodes and not only by the next one in the alphabet. When the leader
// dies, they all share its slots.
func (a *planner) rotation(slot int) []int {
	n := len(a.open)
	order := make([]int, n)
	for i := range order {
		// In a new table, slot%n leads; the other nodes take turns as its first
		// neighbour.
		order[i] = (slot + 1 + slot/n%max(1, n-1) + i) % n
	}
	return order
}

// compareBool orders false before true.
func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}
