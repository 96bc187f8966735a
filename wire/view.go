package wire

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"conclave"
	"conclave/internal/trace"
	"conclave/slot"
	wirev1 "conclave/wire/v1"
)

// ErrBehind is met when a delta is based on a table that the receiver does not
// hold: it must ask for the full one.
var ErrBehind = errors.New("the delta's base is not the table held here")

// View is what a node knows of the cluster's state. It keeps the receiver's
// rule of every kind: a lower epoch is refused and counted, an equal one
// ignored, a higher one taken. It does not matter who hands a state on, since
// each kind was written under its term before anyone could.
type View struct {
	// Trace hears of each table that is taken, in order; set it before the first.
	Trace trace.Sink

	mu      sync.Mutex // guards state and changed; held for copies only
	state   State
	changed chan struct{} // closed, and replaced, at each change
	// announced is when the announcement in state that the cluster stops arrived.
	announced time.Time

	refused atomic.Uint64
}

// NewView knows nothing yet.
func NewView() *View { return &View{changed: make(chan struct{})} }

// State is a snapshot. What it points to is never changed afterwards.
func (v *View) State() State {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.state
}

// Table is the slot table held; its epoch is zero before the first.
func (v *View) Table() slot.Table { return v.State().Table }

// TableEpoch is what every request and answer of this node carries.
func (v *View) TableEpoch() conclave.Epoch { return v.Table().Epoch }

// Epochs says what is held of each kind.
func (v *View) Epochs() *wirev1.Epochs { return EpochsOf(v.State()) }

// Since is all that a peer lacks.
func (v *View) Since(have *wirev1.Epochs) *wirev1.State { return StateOut(v.State(), have) }

// Changed is closed when the state next changes. Take it before reading.
func (v *View) Changed() <-chan struct{} {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.changed
}

// Refused counts the kinds that came with a lower epoch than was held.
func (v *View) Refused() uint64 { return v.refused.Load() }

// Set replaces the whole state: for the leader, whose state is what it wrote.
func (v *View) Set(s State) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.took(s)
	v.announce()
}

// Apply takes what is newer and says whether anything was. ErrBehind means that
// a table delta could not be applied, slot.ErrInvalid that no arranger made the
// table; the other kinds were taken.
func (v *View) Apply(in *wirev1.State) (bool, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	next := v.state
	took := false
	var behind error
	if t := in.GetTable(); t != nil && v.newer(t.GetEpoch(), next.Table.Epoch) {
		table, err := tableIn(next.Table, t)
		if err == nil {
			err = table.Validate()
		}
		if err != nil {
			behind = err
		} else {
			next.Table, next.Replicas, took = table, int(t.GetReplicas()), true
		}
	}
	if m := in.GetMembers(); m != nil && v.newer(m.GetEpoch(), next.Members.Epoch) {
		next.Members, took = Members{Epoch: EpochIn(m.GetEpoch()), List: mapTo(m.GetMembers(), MemberIn)}, true
	}
	if b := in.GetBlacklist(); b != nil && v.newer(b.GetEpoch(), next.Blacklist.Epoch) {
		next.Blacklist, took = Blacklist{Epoch: EpochIn(b.GetEpoch()), Entries: mapTo(b.GetEntries(), entryIn)}, true
	}
	if s := in.GetSwitches(); s != nil && v.newer(s.GetEpoch(), next.Switches.Epoch) {
		next.Switches, took = Switches{Epoch: EpochIn(s.GetEpoch()), List: mapTo(s.GetSwitches(), switchIn)}, true
	}
	if f := in.GetFreeze(); f != nil && v.newer(f.GetEpoch(), next.Freeze.Epoch) {
		next.Freeze, took = Freeze{Epoch: EpochIn(f.GetEpoch()), Frozen: f.GetFrozen(), Reason: f.GetReason()}, true
	}
	if took {
		v.took(next)
		v.announce()
	}
	return took, behind
}

func (v *View) newer(theirs *wirev1.Epoch, mine conclave.Epoch) bool {
	c := EpochIn(theirs).Compare(mine)
	if c < 0 {
		v.refused.Add(1)
	}
	return c > 0
}

// took makes next the state; mu is held.
func (v *View) took(next State) {
	if v.state.Table.Epoch != next.Table.Epoch {
		v.Trace.Claim(trace.Claim{Kind: trace.Took, Epoch: next.Table.Epoch, Base: v.state.Table.Epoch})
	}
	v.notes(next)
	v.state = next
}

// announce wakes whoever waits for a change; mu is held, and closing never
// blocks.
func (v *View) announce() {
	close(v.changed)
	v.changed = make(chan struct{})
}

// tableIn reads a full table, or applies a delta to the table it is based on.
func tableIn(held slot.Table, in *wirev1.SlotTable) (slot.Table, error) {
	out := slot.Table{Epoch: EpochIn(in.GetEpoch())}
	if in.GetBase() == nil {
		out.Slots = mapTo(in.GetSlots(), SlotIn)
		return out, nil
	}
	if EpochIn(in.GetBase()) != held.Epoch {
		return slot.Table{}, ErrBehind
	}
	out.Slots = append([]slot.Slot(nil), held.Slots...)
	for _, s := range in.GetSlots() {
		if int(s.GetId()) >= len(out.Slots) {
			return slot.Table{}, ErrBehind
		}
		out.Slots[s.GetId()] = SlotIn(s)
	}
	return out, nil
}
