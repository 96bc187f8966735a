package slot

import (
	"slices"

	"conclave"
)

// maxCounter is the highest version that is believed when it is reported; a
// wrong one must not use up all that JavaScript can count.
const maxCounter = 1 << 52

// change is the only way to alter a row: it keeps the loads true and records the
// move.
func (a *arranger) change(m Move, alter func(*Slot)) {
	a.count(m.Slot, -1)
	alter(&a.t.Slots[m.Slot])
	a.count(m.Slot, +1)
	a.moves = append(a.moves, m)
}

func (a *arranger) count(i, by int) {
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

// grant begins a new leadership: a new leader epoch, and versions above all that
// an older leader may still have given out.
func (a *arranger) grant(s *Slot, phase Phase, to conclave.NodeID) {
	s.Source, s.SourceEpoch = conclave.NodeID{}, conclave.Epoch{}
	if phase == Switching {
		s.Source, s.SourceEpoch = s.Leader, s.LeaderEpoch
	}
	s.Phase, s.Leader, s.LeaderEpoch, s.Successor = phase, to, a.in.Next, conclave.NodeID{}
	s.First = false
	s.VersionBase = nextBase(max(s.VersionBase, a.counters[s.ID]))
}

// nextBase is the first version base above counter.
func nextBase(counter int64) int64 {
	return (counter/conclave.VersionBase + 1) * conclave.VersionBase
}

func (a *arranger) prepare(s Slot, successor conclave.NodeID, why string) {
	a.change(Move{Slot: s.ID, Kind: Prepared, From: s.Leader, To: successor, Why: why}, func(s *Slot) {
		s.Phase, s.Successor = Preparing, successor
		s.unfollow(successor)
	})
}

func (a *arranger) follow(s Slot, f conclave.NodeID, why string) {
	a.change(Move{Slot: s.ID, Kind: Followed, To: f, Why: why}, func(s *Slot) {
		s.follow(f)
		if s.Leaving == f {
			s.Leaving = conclave.NodeID{}
		}
	})
}

func (a *arranger) unfollow(s Slot, f conclave.NodeID, why string) {
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

// up says that this very incarnation is alive.
func (a *arranger) up(n conclave.NodeID) bool { return !n.IsZero() && a.live[n.Name] == n }

// mayHold says that n is alive and may be given something.
func (a *arranger) mayHold(n conclave.NodeID) bool { return a.up(n) && !a.forbidden[n.Name] }

func (a *arranger) report(slot int, n conclave.NodeID) Report { return a.reports[reportKey{slot, n}] }

func (a *arranger) caughtUp(s Slot, n conclave.NodeID) bool {
	return a.report(s.ID, n).caughtUpWith(s.LeaderEpoch)
}

// keptFollowers are those that the slot is meant to keep: not dead, not
// forbidden, not leaving.
func (a *arranger) keptFollowers(s Slot) []conclave.NodeID {
	return slices.DeleteFunc(slices.Clone(s.Followers), func(n conclave.NodeID) bool { return n == s.Leaving || !a.mayHold(n) })
}

// fewest is the open node with the least load that fits; nobody if none does.
func (a *arranger) fewest(load map[conclave.NodeID]int, s Slot, fits func(conclave.NodeID) bool) (best conclave.NodeID) {
	for _, i := range a.rotation(s.ID) {
		if n := a.open[i]; fits(n) && (best.IsZero() || load[n] < load[best]) {
			best = n
		}
	}
	return best
}

// newFollower is the node that should follow s besides those in its row.
func (a *arranger) newFollower(s Slot) conclave.NodeID {
	return a.fewest(a.follows, s, func(n conclave.NodeID) bool { return !s.Names(n.Name) })
}

// rotation orders the open nodes differently for each slot, to break ties: the
// slots that one node leads should be followed by all others, not by its
// neighbour in the alphabet, for they go there when it dies.
func (a *arranger) rotation(slot int) []int {
	n := len(a.open)
	order := make([]int, n)
	for i := range order {
		// In a table from nothing slot%n leads; its neighbours take turns.
		order[i] = (slot + 1 + slot/n%max(1, n-1) + i) % n
	}
	return order
}

// compareBool puts false before true.
func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}
