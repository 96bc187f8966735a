package slot

import (
	"cmp"
	"math"
	"slices"

	"conclave"
)

// drain is step 3: slots whose leader is forbidden or unheard get successors, as
// long as fewer hand-overs are in progress than the limit. The node leaves slot
// by slot while it still serves (article 002). A live leader keeps a slot for
// which there is no successor.
func (a *planner) drain() {
	inProgress := 0
	for _, s := range a.t.Slots {
		if s.Phase == Preparing || s.Phase == Switching {
			inProgress++
		}
	}
	for _, s := range a.t.Slots {
		if inProgress >= a.in.Limits.Drains {
			return
		}
		if s.Phase != Stable || !a.up(s.Leader) || a.mayLead(s.Leader) {
			continue
		}
		if successor := a.successor(s); !successor.IsZero() {
			a.prepare(s, successor, "drain")
			inProgress++
		}
	}
}

// successor returns the node that should take over from a leader that leaves: a
// follower that has caught up, otherwise any follower, otherwise the node that
// leads the fewest slots.
func (a *planner) successor(s Slot) conclave.NodeID {
	if followers := those(s.Followers, a.mayLead); len(followers) > 0 {
		return slices.MinFunc(followers, func(m, n conclave.NodeID) int {
			return cmp.Or(
				compareBool(a.caughtUp(s, n), a.caughtUp(s, m)),
				cmp.Compare(a.leads[m], a.leads[n]),
				m.Compare(n),
			)
		})
	}
	return a.fewest(a.leads, s, func(n conclave.NodeID) bool { return !s.Names(n.Name) && a.mayLead(n) })
}

// replicate is step 4: it adds all missing followers in one write, first to the
// slots with the fewest, because until they have loaded, a second loss costs
// copies. Then it removes the followers that are no longer needed. Only stable
// slots are considered: in the others the leader has no data yet that could be
// followed, or is about to change.
func (a *planner) replicate() {
	var stable []Slot
	for _, s := range a.t.Slots {
		if s.Phase == Stable && a.up(s.Leader) {
			stable = append(stable, s)
		}
	}
	have := func(s Slot) int { return len(a.keptFollowers(s)) }
	slices.SortStableFunc(stable, func(r, s Slot) int { return cmp.Compare(have(r), have(s)) })
	for _, s := range stable {
		for n := have(s); n < a.in.Replicas-1; n++ {
			f, why := a.newFollower(a.t.Slots[s.ID]), "follower missing"
			if f.IsZero() && a.mayHold(s.Leaving) {
				f, why = s.Leaving, "stays, no other node available"
			}
			if f.IsZero() {
				break
			}
			a.follow(s, f, why)
		}
	}
	for _, s := range stable {
		a.trim(a.t.Slots[s.ID])
	}
}

// trim removes followers once enough others have a complete copy: those that
// are leaving or forbidden, and those that a crash left over. Of the latter it
// removes the one on the node that follows the most slots.
func (a *planner) trim(s Slot) {
	want := a.in.Replicas - 1
	caughtUp := those(a.keptFollowers(s), func(n conclave.NodeID) bool { return a.caughtUp(s, n) })
	if len(caughtUp) < want {
		return
	}
	for _, f := range slices.Clone(s.Followers) {
		if a.forbidden[f.Name] {
			a.unfollow(s, f, "drain")
		} else if f == s.Leaving {
			a.unfollow(s, f, "balance")
		}
	}
	for ; len(caughtUp) > want; caughtUp = caughtUp[:len(caughtUp)-1] {
		slices.SortFunc(caughtUp, func(m, n conclave.NodeID) int {
			return cmp.Or(cmp.Compare(a.follows[m], a.follows[n]), m.Compare(n))
		})
		a.unfollow(s, caughtUp[len(caughtUp)-1], "surplus")
	}
}

// balance is step 5. It runs only when every slot is stable, so that each batch
// of moves is complete before the next one starts (as in the picture of article
// 002), and waits while a node is unheard.
func (a *planner) balance() {
	if !a.t.StableAll() || len(a.open) < 2 || len(a.unheard) > 0 {
		return
	}
	if a.balanceLeaders() == 0 {
		a.balanceFollowers()
	}
}

// balanceLeaders hands slots over from the node that leads most to the node
// that leads least, preferably slots that the latter already follows.
func (a *planner) balanceLeaders() (moved int) {
	high, low := a.marks(a.leads)
	for moved < a.in.Limits.LeaderMoves {
		from, to := a.extremes(a.leads)
		if a.leads[from] <= high && a.leads[to] >= low || a.leads[from]-a.leads[to] < 2 {
			break
		}
		best, rank := -1, 0
		for _, s := range a.t.Slots {
			if s.Leader != from || s.Phase != Stable {
				continue
			}
			r := 1
			if a.caughtUp(s, to) && s.Holds(to) {
				r = 3
			} else if s.Holds(to) {
				r = 2
			}
			if r > rank {
				best, rank = s.ID, r
			}
		}
		if best < 0 {
			break
		}
		a.prepare(a.t.Slots[best], to, "balance")
		moved++
	}
	return moved
}

// balanceFollowers moves followers from nodes that follow many slots to nodes
// that follow few: it adds the new follower, and step 4 removes the old one
// when the new one has caught up. It starts only when every slot has exactly
// the followers it should have, all caught up, so that one batch follows the
// other, as with leaders.
func (a *planner) balanceFollowers() {
	want := min(a.in.Replicas-1, len(a.open)-1)
	for _, s := range a.t.Slots {
		loading := func(n conclave.NodeID) bool { return !a.mayHold(n) || !a.caughtUp(s, n) }
		if len(s.Followers) != want || !s.Leaving.IsZero() || slices.ContainsFunc(s.Followers, loading) {
			return
		}
	}
	high, low := a.marks(a.follows)
	for range a.in.Limits.FollowerMoves {
		most, least := a.extremes(a.follows)
		if a.follows[most] <= high && a.follows[least] >= low {
			return
		}
		slot, from, to := a.followerToMove()
		if from.IsZero() {
			return
		}
		a.change(Move{Slot: slot, Kind: Followed, From: from, To: to, Why: "balance"}, func(s *Slot) {
			s.Leaving = from
			s.follow(to)
		})
	}
}

// followerToMove returns a follower on a heavily loaded node, and a node for it
// to move to, whose loads differ by two or more: of all such pairs, one with
// the largest difference.
func (a *planner) followerToMove() (slot int, from, to conclave.NodeID) {
	most, least := a.extremes(a.follows)
	widest, gap := a.follows[most]-a.follows[least], 1
	for _, s := range a.t.Slots {
		if gap >= widest {
			break // no pair can be further apart
		}
		if !s.Leaving.IsZero() {
			continue
		}
		for _, f := range s.Followers {
			for _, n := range a.open {
				if g := a.follows[f] - a.follows[n]; g > gap && !s.Names(n.Name) {
					slot, from, to, gap = s.ID, f, n, g
				}
			}
		}
	}
	return slot, from, to
}

// marks returns the high and low water marks of a load: the average, with the
// slack of the limits.
func (a *planner) marks(load map[conclave.NodeID]int) (high, low int) {
	total := 0
	for _, n := range a.open {
		total += load[n]
	}
	floor := total / len(a.open)
	ceil := (total + len(a.open) - 1) / len(a.open)
	slack := a.in.Limits.Slack
	return int(math.Ceil((1+slack)*float64(ceil) - 1e-9)), int(math.Floor((1-slack)*float64(floor) + 1e-9))
}

// extremes returns the nodes with the highest and the lowest load; of equals,
// the first by name.
func (a *planner) extremes(load map[conclave.NodeID]int) (most, least conclave.NodeID) {
	by := func(m, n conclave.NodeID) int { return cmp.Compare(load[m], load[n]) }
	return slices.MaxFunc(a.open, by), slices.MinFunc(a.open, by)
}
