package slot

import (
	"slices"

	"conclave"
)

// Arrange makes the next table out of this one: as many steps of as many slots
// as the limits allow, to be persisted in one write under in.Next and then
// published. No moves means that nothing changed; the table is then t itself.
// It is a pure function: the same input makes the same table. t is not changed.
//
// Call it again after each write that moved something, with the next epoch: a
// slot takes one step of its hand-over in each write, and the next step may be
// waiting already. An error is a wrong input (an old epoch, a damaged table, two
// live incarnations of a name), never the state of the cluster.
//
// The steps, each on the result of those before:
//  1. bury: dead leaders' slots are granted to others, dead followers leave
//  2. hear: reports carry hand-overs on
//  3. drain: leaders on forbidden nodes get a successor
//  4. replicate: followers are added where they are missing, surplus ones leave
//  5. balance, when every slot is stable: leaders first, then followers
func Arrange(t Table, in Input) (Table, []Move, error) {
	if err := in.validate(t.Epoch); err != nil {
		return t, nil, err
	}
	if err := t.Validate(); err != nil {
		return t, nil, err
	}
	if len(t.Slots) == 0 || len(in.Live) == 0 {
		// With no data node at all the table stays: it says who had what, and
		// a slot that once had a leader is never left without one.
		return t, nil, nil
	}
	a := newArranger(t, in)
	a.bury()
	a.hear()
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

// arranger is the work on one next table.
type arranger struct {
	in    Input
	t     Table // the next table, changed only through change
	moves []Move

	live      map[string]conclave.NodeID // by name
	forbidden map[string]bool            // by name
	silent    map[conclave.NodeID]bool
	open      []conclave.NodeID // live and not forbidden, sorted: all that may be given anything
	reports   map[reportKey]Report
	counters  map[int]int64 // by slot: the highest version that anyone reported

	leads   map[conclave.NodeID]int // what each will lead once all hand-overs are through
	follows map[conclave.NodeID]int // what each follows
}

type reportKey struct {
	slot int
	node conclave.NodeID
}

func newArranger(t Table, in Input) *arranger {
	in.Limits = in.Limits.withDefaults()
	a := &arranger{
		in: in, t: t.Clone().At(in.Next),
		live:      make(map[string]conclave.NodeID, len(in.Live)),
		forbidden: make(map[string]bool, len(in.Forbidden)),
		silent:    make(map[conclave.NodeID]bool, len(in.Silent)),
		reports:   make(map[reportKey]Report, len(in.Reports)),
		counters:  make(map[int]int64),
		leads:     make(map[conclave.NodeID]int),
		follows:   make(map[conclave.NodeID]int),
	}
	for _, name := range in.Forbidden {
		a.forbidden[name] = true
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

// bury, step 1: what the dead had goes to others. Dead is a node without a
// lease, and one whose name came back as another incarnation: its memory is gone.
//
// While a slot's dead leader has no heir, the rest of its row stays as it is: it
// says who may still have a copy, and a node that is lost only for a while comes
// back with it.
func (a *arranger) bury() {
	for i := range a.t.Slots {
		if s := a.t.Slots[i]; !a.up(s.Leader) {
			a.regrant(s)
		}
		if !a.up(a.t.Slots[i].Leader) {
			continue
		}
		if s := a.t.Slots[i]; s.Phase == Preparing && !a.mayHold(s.Successor) {
			a.abandon(s)
		}
		a.buryFollowers(a.t.Slots[i])
	}
}

// regrant gives the slot of a dead leader to its heir, as crash. Copies that the
// row names stay in it as followers: it is not known yet which of them is needed.
// Without an heir the row keeps its dead leader.
func (a *arranger) regrant(s Slot) {
	heir, why := a.heir(s)
	if heir.IsZero() {
		return
	}
	a.change(Move{Slot: s.ID, Kind: Granted, From: s.Leader, To: heir, Why: why}, func(s *Slot) {
		for _, n := range [...]conclave.NodeID{s.Successor, s.Source} {
			if a.up(n) {
				s.follow(n)
			}
		}
		for _, n := range slices.Clone(s.Followers) {
			if n.Name == heir.Name {
				s.unfollow(n)
			}
		}
		a.grant(s, Crash, heir)
	})
}

// abandon takes a slot back to stable whose successor died or was forbidden. A
// living successor that has a copy keeps it, as the follower that it was, until
// enough others have one.
func (a *arranger) abandon(s Slot) {
	why := "successor forbidden"
	if !a.up(s.Successor) {
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

// buryFollowers binds the place of a follower that restarted to its newer
// incarnation, and takes dead ones out. A frozen table keeps them: they may
// come back.
func (a *arranger) buryFollowers(s Slot) {
	for _, f := range slices.Clone(s.Followers) {
		if a.up(f) {
			continue
		}
		if reborn := a.live[f.Name]; a.mayHold(reborn) {
			a.change(Move{Slot: s.ID, Kind: Rebound, From: f, To: reborn, Why: "follower restarted"}, func(s *Slot) {
				s.unfollow(f)
				s.follow(reborn)
			})
		} else if !a.in.Frozen {
			a.unfollow(s, f, "follower lost")
		}
	}
}

// hear, step 2: what the nodes report carries their slots on. Only a report of
// the very leader epoch in the row counts: an older one is about another
// leadership, a newer one cannot be.
func (a *arranger) hear() {
	for _, s := range a.t.Slots {
		switch {
		case !a.up(s.Leader):
			// It has no heir; the last reports of a dead leader count for nothing.
		case s.Phase == Switching || s.Phase == Crash:
			if r := a.report(s.ID, s.Leader); r.State == Serving && r.Epoch == s.LeaderEpoch {
				a.settle(s)
			}
		case s.Phase == Preparing && !a.in.Frozen:
			// That the successor is this very incarnation, and not forbidden,
			// was found in step 1 of this same write.
			if a.caughtUp(s, s.Successor) {
				a.change(Move{Slot: s.ID, Kind: Switched, From: s.Leader, To: s.Successor, Why: "successor caught up"}, func(s *Slot) {
					a.grant(s, Switching, s.Successor)
				})
			}
		}
	}
}

// settle ends a hand-over whose new leader serves. The source, also a forbidden
// one, stays as follower until enough other followers have a complete copy.
func (a *arranger) settle(s Slot) {
	keeps := a.up(s.Source) && a.completeSince(s, s.SourceEpoch) < a.in.Replicas-1
	a.change(Move{Slot: s.ID, Kind: Settled, From: s.Source, To: s.Leader, Why: "leader serves"}, func(s *Slot) {
		if keeps {
			s.follow(s.Source)
		}
		s.Phase, s.Source, s.SourceEpoch = Stable, conclave.NodeID{}, conclave.Epoch{}
	})
}
