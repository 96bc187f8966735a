package slot

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"conclave"
)

// Clone returns a copy that shares no memory with t.
func (t Table) Clone() Table {
	c := Table{Epoch: t.Epoch, Slots: make([]Slot, len(t.Slots))}
	for i, s := range t.Slots {
		c.Slots[i] = s.clone()
	}
	return c
}

// Equal reports whether both tables have the same epoch and the same rows.
func (t Table) Equal(o Table) bool {
	return t.Epoch == o.Epoch && slices.EqualFunc(t.Slots, o.Slots, Slot.Equal)
}

// At returns the same assignment under another epoch. The first write of a term
// uses it to seal the table again. The result shares its rows with t.
func (t Table) At(epoch conclave.Epoch) Table {
	t.Epoch = epoch
	return t
}

// LedBy returns the ids of the slots that this incarnation of node leads.
func (t Table) LedBy(node conclave.NodeID) []int {
	return t.ids(func(s Slot) bool { return s.Leader == node })
}

// HeldBy returns the ids of the slots of which this incarnation of node has a
// copy or is loading one, whatever its place in the row.
func (t Table) HeldBy(node conclave.NodeID) []int {
	return t.ids(func(s Slot) bool { return s.Holds(node) })
}

func (t Table) ids(pick func(Slot) bool) []int {
	var ids []int
	for _, s := range t.Slots {
		if pick(s) {
			ids = append(ids, s.ID)
		}
	}
	return ids
}

// StableAll reports whether every slot is stable: its leader has reported that
// it serves, and no hand-over is in progress. The table does not record whether
// the leaders are alive; see Even.
func (t Table) StableAll() bool {
	return !slices.ContainsFunc(t.Slots, func(s Slot) bool { return s.Phase != Stable })
}

// Even reports whether the given nodes lead every slot and none of them leads
// two more than another. An empty table is even.
func (t Table) Even(nodes []conclave.NodeID) bool {
	if len(t.Slots) == 0 {
		return true
	}
	leads := make(map[conclave.NodeID]int, len(nodes))
	for _, s := range t.Slots {
		if !slices.Contains(nodes, s.Leader) {
			return false
		}
		leads[s.Leader]++
	}
	least, most := len(t.Slots), 0
	for _, n := range nodes {
		least, most = min(least, leads[n]), max(most, leads[n])
	}
	return most-least <= 1
}

// ErrInvalid wraps the errors of Validate. No arranger writes such a table, so
// it is a bug, a damaged row or a foreign peer; the receiver keeps the table
// that it has.
var ErrInvalid = errors.New("invalid slot table")

// ErrBackwards wraps the errors of Monotone: the table must not follow the
// present one. This happens, for example, after a database was restored from an
// old backup.
var ErrBackwards = errors.New("slot table goes backwards")

// Validate checks the invariants of a single table. The number of slots is
// legal and they are in the order of their ids. Every slot has a leader, and no
// name occurs twice in its row. No leader epoch is newer than the table's
// epoch. Each phase has the fields that it needs and no others. The zero Table
// is valid.
func (t Table) Validate() error {
	if len(t.Slots) == 0 {
		return nil
	}
	if err := ValidateCount(len(t.Slots)); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	for i, s := range t.Slots {
		if s.ID != i {
			return fmt.Errorf("%w: row %d has slot id %d", ErrInvalid, i, s.ID)
		}
		if err := s.validate(t.Epoch); err != nil {
			return fmt.Errorf("%w: slot %d: %w", ErrInvalid, i, err)
		}
	}
	return nil
}

func (s Slot) validate(table conclave.Epoch) error {
	// 1. The nodes in the row.
	if s.Leader.IsZero() {
		return errors.New("no leader")
	}
	holders := s.Holders()
	for i, n := range holders {
		switch {
		case n.Name == "" || n.Incarnation == "":
			return fmt.Errorf("node %q is not a name and an incarnation", n)
		case slices.ContainsFunc(holders[:i], func(o conclave.NodeID) bool { return o.Name == n.Name }):
			return fmt.Errorf("%s is in the row twice", n.Name)
		}
	}
	for i := 1; i < len(s.Followers); i++ {
		if s.Followers[i-1].Compare(s.Followers[i]) >= 0 {
			return fmt.Errorf("followers %s and %s are not in order", s.Followers[i-1], s.Followers[i])
		}
	}

	if !s.Leaving.IsZero() && !slices.Contains(s.Followers, s.Leaving) {
		return fmt.Errorf("%s is leaving but is not a follower", s.Leaving)
	}

	// 2. The epochs and the version base.
	switch {
	case s.LeaderEpoch.IsZero():
		return errors.New("no leader epoch")
	case table.Less(s.LeaderEpoch):
		return fmt.Errorf("leader epoch %s is newer than the table's %s", s.LeaderEpoch, table)
	case s.VersionBase < 0 || s.VersionBase > conclave.MaxVersion || s.VersionBase%conclave.VersionBase != 0:
		return fmt.Errorf("version base %d is not a multiple of %d up to %d", s.VersionBase, conclave.VersionBase, int64(conclave.MaxVersion))
	}

	// 3. The fields of its phase.
	switch s.Phase {
	case Stable, Crash, Preparing, Switching:
	default:
		return fmt.Errorf("unknown phase %q (want stable, preparing, switching or crash)", s.Phase)
	}
	switch preparing, switching := s.Phase == Preparing, s.Phase == Switching; {
	case preparing == s.Successor.IsZero():
		return fmt.Errorf("phase %s with successor %q", s.Phase, s.Successor)
	case switching == s.Source.IsZero():
		return fmt.Errorf("phase %s with source %q", s.Phase, s.Source)
	case switching == s.SourceEpoch.IsZero():
		return fmt.Errorf("phase %s with source epoch %s", s.Phase, s.SourceEpoch)
	case switching && !s.SourceEpoch.Less(s.LeaderEpoch):
		return fmt.Errorf("source epoch %s is not before leader epoch %s", s.SourceEpoch, s.LeaderEpoch)
	}
	return nil
}

// Monotone returns an error unless a receiver that has old may accept next. The
// table epoch only rises, and the same epoch means the same rows. The number of
// slots stays the same. No leader epoch and no version base falls. A slot's
// leader epoch rises when its leader changes, in name or incarnation. The same
// leader gets a new leader epoch only in phase crash, when a slot is granted
// again after a database was restored (see Adopt).
func Monotone(old, next Table) error {
	if len(old.Slots) == 0 && old.Epoch.IsZero() {
		return nil
	}
	fail := func(format string, args ...any) error {
		return fmt.Errorf("%w: %w", ErrBackwards, fmt.Errorf(format, args...))
	}
	switch c := next.Epoch.Compare(old.Epoch); {
	case c < 0:
		return fail("epoch %s after %s", next.Epoch, old.Epoch)
	case c == 0 && !next.Equal(old):
		return fail("two tables of epoch %s differ", old.Epoch)
	case len(old.Slots) != 0 && len(next.Slots) != len(old.Slots):
		return fail("%d slots after %d", len(next.Slots), len(old.Slots))
	}
	for i, o := range old.Slots {
		n := next.Slots[i]
		switch c := n.LeaderEpoch.Compare(o.LeaderEpoch); {
		case c < 0:
			return fail("slot %d: leader epoch %s after %s", i, n.LeaderEpoch, o.LeaderEpoch)
		case c == 0 && n.Leader != o.Leader:
			return fail("slot %d: leader %s after %s at the same leader epoch %s", i, n.Leader, o.Leader, o.LeaderEpoch)
		case c > 0 && n.Leader == o.Leader && n.Phase != Crash:
			return fail("slot %d: leader epoch %s after %s for the same leader %s", i, n.LeaderEpoch, o.LeaderEpoch, o.Leader)
		case n.VersionBase < o.VersionBase:
			return fail("slot %d: version base %d after %d", i, n.VersionBase, o.VersionBase)
		}
	}
	return nil
}

// CanDrain decides whether the named node may be put on the blacklist in order
// to be drained. It returns ErrNoSuccessor, with the reason, if the node leads
// slots that no other live node may take over, or has copies of slots whose
// leader is dead, because it may be granted those. forbidden are the names that
// are already on the blacklist.
func CanDrain(t Table, name string, live []conclave.NodeID, forbidden []string) error {
	leads, inherits := 0, 0
	for _, s := range t.Slots {
		switch {
		case s.Leader.Name == name:
			leads++
		case s.Names(name) && !slices.Contains(live, s.Leader):
			inherits++
		}
	}
	if leads+inherits == 0 {
		return nil
	}
	var others []string
	for _, n := range live {
		switch {
		case n.Name == name:
		case slices.Contains(forbidden, n.Name):
			others = append(others, n.Name)
		default:
			return nil
		}
	}
	reason := "no other data node is up"
	if len(others) > 0 {
		slices.Sort(others)
		reason = "every other data node is blacklisted: " + strings.Join(others, ", ")
	}
	has := fmt.Sprintf("leads %d slots", leads)
	if leads == 0 {
		has = fmt.Sprintf("has copies of %d slots without a leader", inherits)
	}
	return fmt.Errorf("drain %s, which %s: %w: %s", name, has, ErrNoSuccessor, reason)
}

// Drained reports whether the named node may stop without loss of data, and
// without loss of a copy: it has handed over (HandedOver), and too few other
// nodes are available to hold the copies that it still has, so that the cluster
// has one copy fewer without this node in any case.
func Drained(t Table, name string, live []conclave.NodeID, forbidden []string, replicas int) bool {
	is := func(n conclave.NodeID) bool { return n.Name == name }
	available := func(s Slot) (n int) {
		for _, l := range live {
			if !is(l) && l != s.Leader && !slices.Contains(forbidden, l.Name) {
				n++
			}
		}
		return n
	}
	for _, s := range t.Slots {
		if slices.ContainsFunc(s.Followers, is) && available(s) >= replicas-1 {
			return false
		}
	}
	return HandedOver(t, name, live)
}

// HandedOver reports whether the named node may stop without loss of data. It
// must lead no slot and be the source of none (its successors serve). Every slot
// that it follows must have a live leader that serves it: while a slot's leader
// is dead or compares with the sessions, a follower may have the last complete
// copy, and the next write may make it the leader.
//
// The slots that it follows have a copy fewer when it has stopped, until another
// node has loaded one: Drained waits for that, too.
func HandedOver(t Table, name string, live []conclave.NodeID) bool {
	is := func(n conclave.NodeID) bool { return n.Name == name }
	for _, s := range t.Slots {
		if is(s.Leader) || is(s.Successor) || is(s.Source) {
			return false
		}
		served := (s.Phase == Stable || s.Phase == Preparing) && slices.Contains(live, s.Leader)
		if slices.ContainsFunc(s.Followers, is) && !served {
			return false
		}
	}
	return true
}
