package slot

import (
	"errors"
	"fmt"

	"conclave"
)

// ErrBase reports that a delta was made against another table than the one it
// is applied to. The receiver should request the whole table.
var ErrBase = errors.New("delta does not fit the slot table at hand")

// Delta is the change from one table to another, as it is sent to other nodes.
// If Base is zero, Slots is the whole table.
type Delta struct {
	Base  conclave.Epoch `json:"base,omitzero"` // the epoch of the table that it applies to
	Epoch conclave.Epoch `json:"epoch"`         // the epoch of the resulting table
	Slots []Slot         `json:"slots"`         // the changed rows, in the order of their ids
}

// Full returns the delta that makes t from the zero Table, and from any older
// table.
func Full(t Table) Delta { return Diff(Table{}, t) }

// Diff returns the changes from old to next. The result shares no memory with
// them. If the tables have different lengths, it is the whole of next.
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

// Apply returns the table that results from applying d to t. It never changes
// t. The errors are:
//   - ErrBase: t is not the table that d was made against, or d is a whole table
//     that is not newer than t.
//   - ErrInvalid: the result would violate an invariant.
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
