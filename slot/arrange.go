package slot

import (
	"slices"

	"conclave"
)

// Arrange returns the table that should follow t, and the changes as moves. It
// takes as many steps for as many slots as the limits allow. The caller stores
// the result in one write under in.Next and then publishes it. If there are no
// moves, the returned table is t itself. Arrange is a pure function, its result
// depends only on its arguments, and it does not change t.
//
// After each write that moved something, call Arrange again with the next
// epoch: a slot takes one step of its hand-over in each write, and the next
// step may already be possible. An error reports invalid input (an old epoch, a
// damaged table, two live incarnations of a name), never a state of the
// cluster.
//
// The steps, each on the result of those before:
//  1. remove the dead: dead leaders' slots, and those of unheard leaders, are
//     granted to others, dead followers leave
//  2. apply reports: hand-overs advance
//  3. drain: leaders on forbidden and unheard nodes get a successor
//  4. replicate: missing followers are added, superfluous ones leave
//  5. balance, when every slot is stable: leaders first, then followers
func Arrange(t Table, in Input) (Table, []Move, error) {
	if err := in.validate(t.Epoch); err != nil {
		return t, nil, err
	}
	if err := t.Validate(); err != nil {
		return t, nil, err
	}
	if len(t.Slots) == 0 || len(in.Live) == 0 {
		// Without any data node the table stays as it is: it records which
		// nodes had what, and a slot that once had a leader is never left
		// without one.
		return t, nil, nil
	}
	a := newPlanner(t, in)
	a.removeDead()
	a.applyReports()
	if !in.Frozen {
		a.drain()
		a.replicate()
		a.balance()
	}
	if len(a.moves) == 0 {
		return t, nil, nil
	}
	return a.t, a.moves, nil
}

// planner holds the state of one call of Arrange, New or Adopt.
type planner struct {
	in    Input
	t     Table // the next table; modified only through change
	moves []Move

	live      map[string]conclave.NodeID // by name
	forbidden map[string]bool            // by name
	unheard   map[string]bool            // by name
	silent    map[conclave.NodeID]bool
	open      []conclave.NodeID // live and not forbidden, sorted: the nodes that may be given slots
	reports   map[reportKey]Report
	counters  map[int]int64 // by slot: the highest version that any node reported

	leads   map[conclave.NodeID]int // slots that each node leads once all hand-overs are done
	follows map[conclave.NodeID]int // slots that each node follows, without those that it is leaving
}

type reportKey struct {
	slot int
	node conclave.NodeID
}

func newPlanner(t Table, in Input) *planner {
	in.Limits = in.Limits.withDefaults()
	a := &planner{
		in: in, t: t.Clone().At(in.Next),
		live:      make(map[string]conclave.NodeID, len(in.Live)),
		forbidden: make(map[string]bool, len(in.Forbidden)),
		unheard:   make(map[string]bool, len(in.Unheard)),
		silent:    make(map[conclave.NodeID]bool, len(in.Silent)),
		reports:   make(map[reportKey]Report, len(in.Reports)),
		counters:  make(map[int]int64),
		leads:     make(map[conclave.NodeID]int),
		follows:   make(map[conclave.NodeID]int),
	}
	for _, name := range in.Forbidden {
		a.forbidden[name] = true
	}
	for _, name := range in.Unheard {
		a.unheard[name] = true
	}
	for _, n := range in.Silent {
		a.silent[n] = true
	}
	for _, n := range in.Live {
		a.live[n.Name] = n
		if !a.forbidden[n.Name] {
			a.open = append(a.open, n)
		}
	}
	slices.SortFunc(a.open, conclave.NodeID.Compare)
	for _, r := range in.Reports {
		a.reports[reportKey{r.Slot, r.Node}] = r
		if r.Counter <= maxCounter {
			a.counters[r.Slot] = max(a.counters[r.Slot], r.Counter)
		}
	}
	for i := range a.t.Slots {
		a.count(i, +1)
	}
	return a
}

// removeDead is step 1: what dead nodes had goes to others. A node is dead if
// it has no lease, or if its name is live as another incarnation, since the old
// one's memory is lost.
//
// As long as a slot's dead leader has no replacement, the rest of its row stays
// as it is: it records which nodes may still have a copy, and a node that is
// lost only briefly returns with it.
func (a *planner) removeDead() {
	for i := range a.t.Slots {
		switch s := a.t.Slots[i]; {
		case !a.up(s.Leader):
			a.regrant(s, a.replacement)
		case a.unheard[s.Leader.Name] && !a.in.Frozen:
			a.regrant(s, a.heardCopy)
		}
		if !a.up(a.t.Slots[i].Leader) {
			continue
		}
		if s := a.t.Slots[i]; s.Phase == Preparing && !a.mayLead(s.Successor) {
			a.abandon(s)
		}
		a.removeDeadFollowers(a.t.Slots[i])
	}
}

// regrant grants the slot of a dead or unheard leader to the replacement that
// choose returns, in phase crash. All live copies in the row stay as followers,
// the unheard leader's included, because it is not known yet which of them are
// needed. In a frozen table the newer incarnation of the dead leader follows,
// since no other node replaces the copy. If there is no replacement, the row
// keeps its leader.
func (a *planner) regrant(s Slot, choose func(Slot) (conclave.NodeID, string)) {
	replacement, why := choose(s)
	if replacement.IsZero() {
		return
	}
	a.change(Move{Slot: s.ID, Kind: Granted, From: s.Leader, To: replacement, Why: why}, func(s *Slot) {
		for _, n := range [...]conclave.NodeID{s.Leader, s.Successor, s.Source} {
			if a.up(n) && n != replacement {
				s.follow(n)
			}
		}
		for _, n := range slices.Clone(s.Followers) {
			if n.Name == replacement.Name {
				s.unfollow(n)
			}
		}
		a.grant(s, Crash, replacement)
	})
	if own := a.live[s.Leader.Name]; a.in.Frozen && own != replacement && a.mayHold(own) {
		a.follow(a.t.Slots[s.ID], own, "leader restarted while frozen")
	}
}

// abandon returns a slot to stable when its successor has died, was forbidden or
// is unheard. A live successor with a complete copy stays as a follower if the
// slot has too few others.
func (a *planner) abandon(s Slot) {
	why := "successor forbidden"
	if a.mayHold(s.Successor) {
		why = "successor unheard"
	} else if !a.up(s.Successor) {
		why = "successor lost"
	}
	keeps := a.up(s.Successor) && a.caughtUp(s, s.Successor) && a.completeSince(s, s.LeaderEpoch) < a.in.Replicas-1
	a.change(Move{Slot: s.ID, Kind: Abandoned, From: s.Successor, To: s.Leader, Why: why}, func(s *Slot) {
		if keeps {
			s.follow(s.Successor)
		}
		s.Phase, s.Successor = Stable, conclave.NodeID{}
	})
}

// removeDeadFollowers replaces a follower that has restarted by its newer
// incarnation, and removes dead followers. In a frozen table dead followers
// stay, because they may return.
func (a *planner) removeDeadFollowers(s Slot) {
	for _, f := range slices.Clone(s.Followers) {
		if a.up(f) {
			continue
		}
		if restarted := a.live[f.Name]; a.mayHold(restarted) {
			a.change(Move{Slot: s.ID, Kind: Rebound, From: f, To: restarted, Why: "follower restarted"}, func(s *Slot) {
				s.unfollow(f)
				s.follow(restarted)
			})
		} else if !a.in.Frozen {
			a.unfollow(s, f, "follower lost")
		}
	}
}

// applyReports is step 2: reports advance hand-overs. Only a report under the
// leader epoch in the row counts. One under an older epoch is about another
// leadership, and there is none under a newer epoch.
func (a *planner) applyReports() {
	for _, s := range a.t.Slots {
		switch {
		case !a.up(s.Leader):
			// There is no replacement yet; reports of a dead leader do not
			// count.
		case s.Phase == Switching || s.Phase == Crash:
			if r := a.report(s.ID, s.Leader); r.State == Serving && r.Epoch == s.LeaderEpoch {
				a.endHandOver(s)
			}
		case s.Phase == Preparing && !a.in.Frozen:
			// Step 1 of this write has already checked that the successor is
			// this incarnation and is not forbidden.
			if a.caughtUp(s, s.Successor) {
				a.change(Move{Slot: s.ID, Kind: Switched, From: s.Leader, To: s.Successor, Why: "successor caught up"}, func(s *Slot) {
					a.grant(s, Switching, s.Successor)
				})
			}
		}
	}
}

// endHandOver ends a hand-over whose new leader serves. The source, even if it is
// forbidden, stays as a follower until enough other followers have a complete
// copy.
func (a *planner) endHandOver(s Slot) {
	keeps := a.up(s.Source) && a.completeSince(s, s.SourceEpoch) < a.in.Replicas-1
	a.change(Move{Slot: s.ID, Kind: Settled, From: s.Source, To: s.Leader, Why: "leader serves"}, func(s *Slot) {
		if keeps {
			s.follow(s.Source)
		}
		s.Phase, s.Source, s.SourceEpoch = Stable, conclave.NodeID{}, conclave.Epoch{}
	})
}
