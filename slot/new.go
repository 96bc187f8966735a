package slot

import (
	"fmt"
	"slices"

	"conclave"
)

// New returns the first table, with that many slots: leaders and followers are
// spread evenly over the live, allowed nodes; an unheard node leads only if all
// are unheard. Each slot is in phase crash, since its leader must compare with
// every session before it may serve. Versions start above in.FloorBase and
// above every reported counter. The error reports an invalid count or input, or
// ErrNoSuccessor if every live node is forbidden; the caller should then wait
// for data nodes.
func New(slots int, in Input) (Table, error) {
	if err := ValidateCount(slots); err != nil {
		return Table{}, err
	}
	if err := in.validate(conclave.Epoch{}); err != nil {
		return Table{}, err
	}
	if in.FloorBase < 0 || in.FloorBase > maxCounter {
		return Table{}, fmt.Errorf("floor of the version bases is %d, want 0 to %d", in.FloorBase, int64(maxCounter))
	}
	a := newPlanner(Table{}, in)
	if len(a.open) == 0 {
		return Table{}, fmt.Errorf("make a slot table: %w: %d data nodes are live, all of them are forbidden", ErrNoSuccessor, len(in.Live))
	}
	leaders := those(a.open, a.mayLead)
	if len(leaders) == 0 {
		leaders = a.open
	}
	a.t.Slots = make([]Slot, slots)
	for i := range a.t.Slots {
		a.t.Slots[i] = Slot{ID: i, Followers: []conclave.NodeID{}, VersionBase: in.FloorBase}
		a.grant(&a.t.Slots[i], Crash, leaders[i%len(leaders)])
		a.t.Slots[i].First = true
		a.count(i, +1)
	}
	for range min(in.Replicas, len(a.open)) - 1 {
		for _, s := range slices.Clone(a.t.Slots) {
			a.follow(s, a.newFollower(s), "new table")
		}
	}
	return a.t, nil
}

// Adopt continues from a table that nodes have and the database has lost: seen
// is newer than stored, which was restored from a backup. The result is seen
// under the next epoch. Each slot in which the two tables differ is granted
// again to its leader in seen, as crash, since it is unknown what else was lost
// with that table. Versions rise above those of both tables and above all
// reported counters.
func Adopt(stored, seen Table, in Input) (Table, []Move, error) {
	if err := in.validate(seen.Epoch); err != nil {
		return stored, nil, err
	}
	if err := seen.Validate(); err != nil {
		return stored, nil, err
	}
	if len(stored.Slots) != 0 && len(stored.Slots) != len(seen.Slots) {
		return stored, nil, fmt.Errorf("adopt slot table %s: it has %d slots, the stored one %d", seen.Epoch, len(seen.Slots), len(stored.Slots))
	}
	a := newPlanner(seen, in)
	for i, s := range seen.Slots {
		if len(stored.Slots) != 0 && s.Equal(stored.Slots[i]) {
			continue
		}
		a.change(Move{Slot: i, Kind: Granted, From: s.Leader, To: s.Leader, Why: "the database was restored"}, func(s *Slot) {
			for _, n := range [...]conclave.NodeID{s.Successor, s.Source} {
				if !n.IsZero() {
					s.follow(n)
				}
			}
			if len(stored.Slots) != 0 {
				s.VersionBase = max(s.VersionBase, stored.Slots[i].VersionBase)
			}
			a.grant(s, Crash, s.Leader)
		})
	}
	return a.t, a.moves, nil
}
