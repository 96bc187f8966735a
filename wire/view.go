package wire

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"conclave"
	"conclave/internal/signal"
	"conclave/internal/trace"
	"conclave/slot"
	wirev1 "conclave/wire/v1"
)

// ErrBehind reports a delta against a table that the receiver does not have.
// The receiver must fetch the whole table.
var ErrBehind = errors.New("the delta does not apply to this node's table")

// View is a node's knowledge of the cluster's state. For each kind it refuses
// and counts a lower epoch, ignores an equal one and accepts a higher one. It
// does not matter which node sends a state, since each kind was written under
// its term before it was published.
type View struct {
	// Trace receives each table that is accepted, in order. Set it before the
	// first.
	Trace trace.Sink

	changed signal.Broadcast // at each change of state

	mu    sync.Mutex // guards state and announced; held only to copy them
	state State
	// announced is the arrival time of the announcement, in state, that the
	// cluster stops.
	announced time.Time

	refused atomic.Uint64
}

// NewView returns a View with the zero State.
func NewView() *View { return &View{} }

// State returns the present state. What it points to is never changed.
func (v *View) State() State {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.state
}

// Table returns the present slot table, the zero Table before the first.
func (v *View) Table() slot.Table { return v.State().Table }

// TableEpoch returns the epoch of the present table, which every request and
// answer of this node carries.
func (v *View) TableEpoch() conclave.Epoch { return v.Table().Epoch }

// Epochs returns the present epoch of each kind.
func (v *View) Epochs() *wirev1.Epochs { return EpochsOf(v.State()) }

// Since returns the part of the state that a peer with the epochs in have
// lacks.
func (v *View) Since(have *wirev1.Epochs) *wirev1.State { return StateOut(v.State(), have) }

// Changed returns a channel that is closed at the next change of the state.
// Call it before reading the state, so that no change is missed.
func (v *View) Changed() <-chan struct{} { return v.changed.Next() }

// Refused returns the number of values that were refused because of a lower
// epoch.
func (v *View) Refused() uint64 { return v.refused.Load() }

// Set replaces the whole state, whatever its epochs: the leader calls it with the
// rows as the database has them, also if those were restored and are older.
func (v *View) Set(s State) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.replace(s)
}

// Apply accepts the kinds that are newer, ignores one without an epoch, and reports
// whether it accepted any. The error is ErrBehind if a table delta did not apply, or
// wraps slot.ErrInvalid if the table is invalid; the other kinds are accepted in
// either case.
func (v *View) Apply(in *wirev1.State) (bool, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	next := v.state
	took := false
	var failed error
	for _, k := range kinds {
		if sent := k.sent(in); sent == nil || !v.newer(sent, k.epoch(&next)) {
			continue
		}
		if err := k.in(in, &next); err != nil {
			failed = err
		} else {
			took = true
		}
	}
	if took {
		v.replace(next)
	}
	return took, failed
}

func (v *View) newer(theirs *wirev1.Epoch, mine conclave.Epoch) bool {
	c := EpochIn(theirs).Compare(mine)
	if c < 0 {
		v.refused.Add(1)
	}
	return c > 0
}

// replace makes next the state, and wakes all that wait for a change. mu is
// held.
func (v *View) replace(next State) {
	if v.state.Table.Epoch != next.Table.Epoch {
		v.Trace.Claim(trace.Claim{Kind: trace.Took, Epoch: next.Table.Epoch, Base: v.state.Table.Epoch})
	}
	v.noteArrival(next)
	v.state = next
	v.changed.Notify()
}

// tableIn takes the table in a message, or the result of applying the delta in it
// to the table of s.
func tableIn(m *wirev1.State, s *State) error {
	in := m.Table
	next := slot.Table{Epoch: EpochIn(in.GetEpoch())}
	if in.GetBase() == nil {
		next.Slots = mapTo(in.GetSlots(), SlotIn)
	} else {
		if EpochIn(in.GetBase()) != s.Table.Epoch {
			return ErrBehind
		}
		next.Slots = slices.Clone(s.Table.Slots)
		for _, row := range in.GetSlots() {
			if int(row.GetId()) >= len(next.Slots) {
				return ErrBehind
			}
			next.Slots[row.GetId()] = SlotIn(row)
		}
	}
	if err := next.Validate(); err != nil {
		return err
	}
	s.Table, s.Replicas = next, int(in.GetReplicas())
	return nil
}
