package slot

import (
	"errors"
	"fmt"

	"conclave"
)

// ErrBase says that a delta was made against another table than the one it is
// applied to: ask for the whole table.
var ErrBase = errors.New("delta does not fit the slot table at hand")

// Delta is how tables travel: full at first, then what changed. A zero Base
// means that Slots is the whole table.
type Delta struct {
	Base  conclave.Epoch `json:"base,omitzero"` // the epoch of the table it must be applied to
	Epoch conclave.Epoch `json:"epoch"`         // the epoch of the table it makes
	Slots []Slot         `json:"slots"`         // the rows that changed, in the order of their ids
}

// Full is the delta that makes t out of nothing, and out of any older table.
func Full(t Table) Delta { return Diff(Table{}, t) }

// Diff is what changed between two tables. It shares nothing with them. Tables
// of different length have nothing in common: then it is the whole of next.
func Diff(old, next Table) Delta {
	d := Delta{Base: old.Epoch, Epoch: next.Epoch, Slots: []Slot{}}
	if len(old.Slots) != len(next.Slots) {
		d.Base = conclave.Epoch{}
	}
	for i, s := range next.Slots {
		if d.Base.IsZero() || !s.Equal(old.Slots[i]) {
			d.Slots = append(d.Slots, s.clone())
		}
	}
	return d
}

// Apply makes the table that d leads to. t is not changed, whatever happens.
//   - ErrBase: t is not the table d was made against, or d is a whole table that
//     is not newer than t.
//   - ErrInvalid: the result would break an invariant.
func Apply(t Table, d Delta) (Table, error) {
	whole := d.Base.IsZero()
	switch {
	case !whole && d.Base != t.Epoch:
		return t, fmt.Errorf("%w: made for epoch %s, the table has %s", ErrBase, d.Base, t.Epoch)
	case d.Epoch.Less(t.Epoch), whole && d.Epoch == t.Epoch && !t.Epoch.IsZero():
		return t, fmt.Errorf("%w: it makes epoch %s, the table has %s", ErrBase, d.Epoch, t.Epoch)
	case !whole && d.Epoch == t.Epoch && len(d.Slots) > 0:
		return t, fmt.Errorf("%w: it changes rows without a new epoch %s", ErrBase, d.Epoch)
	case whole && len(d.Slots) == 0 && len(t.Slots) > 0:
		return t, fmt.Errorf("%w: it would empty a table of %d slots", ErrInvalid, len(t.Slots))
	}
	next := Table{Epoch: d.Epoch, Slots: make([]Slot, 0, len(d.Slots))}
	if whole {
		for _, s := range d.Slots {
			next.Slots = append(next.Slots, s.clone())
		}
	} else {
		next.Slots = t.Clone().Slots
		last := -1
		for _, s := range d.Slots {
			if s.ID <= last || s.ID >= len(next.Slots) {
				return t, fmt.Errorf("%w: changed slot %d is out of order or range", ErrInvalid, s.ID)
			}
			last, next.Slots[s.ID] = s.ID, s.clone()
		}
	}
	if err := next.Validate(); err != nil {
		return t, fmt.Errorf("apply delta %s to %s: %w", d.Epoch, t.Epoch, err)
	}
	return next, nil
}
