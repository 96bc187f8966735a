package session

import (
	"sync"
	"time"

	"conclave"
	"conclave/internal/trace"
)

// fences keeps, for every slot, the highest leader epoch that this session has
// adopted and the address of that leader. An epoch is adopted from the slot
// table, from a data node that asks for a diff, or from a data node that
// reports that it serves at it; in each case it was written under a term first.
// It never falls: later answers of an older leader do not count.
type fences struct {
	trace trace.Sink // events are reported with the row's lock held

	mu   sync.Mutex // guards the length of rows
	rows []*fence
}

// fence is the fence of one slot. Its mutex is the outermost lock of the
// session. It is held while an answer of a leader is counted (the locks of the
// registry, topics and outboxes nest inside), so that no answer of an older
// epoch is counted after a newer one was adopted. Only memory is touched under
// it.
type fence struct {
	slot  int
	trace trace.Sink

	mu      sync.Mutex // guards the rest
	epoch   conclave.Epoch
	address string    // of the leader at epoch; "" while it is not known
	since   time.Time // when epoch was adopted
	pushed  int64     // the highest version given to any subscriber of this slot
}

// of returns the fence of a slot. It is made on first use, because a data node
// may ask for a diff before this session has a table.
func (f *fences) of(slot int) *fence {
	f.mu.Lock()
	defer f.mu.Unlock()
	for len(f.rows) <= slot {
		f.rows = append(f.rows, &fence{slot: len(f.rows), trace: f.trace})
	}
	return f.rows[slot]
}

// adopt adopts a leader epoch unless it is older than the present one (ok is
// false then), and reports whether anything changed. An equal epoch may still
// bring the address.
func (f *fences) adopt(slot int, epoch conclave.Epoch, address string) (changed, ok bool) {
	row := f.of(slot)
	row.mu.Lock()
	defer row.mu.Unlock()
	return row.adopt(epoch, address)
}

func (f *fence) adopt(epoch conclave.Epoch, address string) (changed, ok bool) {
	switch c := epoch.Compare(f.epoch); {
	case c < 0:
		return false, false
	case c == 0:
		if address == "" || address == f.address {
			return false, true
		}
		f.address = address
		return true, true
	}
	f.trace.Claim(trace.Claim{Kind: trace.Adopted, Slot: f.slot, Epoch: epoch, Base: f.epoch})
	f.epoch, f.address, f.since = epoch, address, time.Now()
	return true, true
}

// route is the leader of a slot, as far as this session knows.
type route struct {
	epoch   conclave.Epoch
	address string
	since   time.Time
}

func (f *fences) route(slot int) route {
	row := f.of(slot)
	row.mu.Lock()
	defer row.mu.Unlock()
	return route{row.epoch, row.address, row.since}
}

// ifCurrent runs fn if epoch is still the present one, so that an answer given
// at it counts, and reports whether it did. fn may lock the registry, the
// topics and outboxes, and nothing else.
func (f *fences) ifCurrent(slot int, epoch conclave.Epoch, fn func(*fence)) bool {
	row := f.of(slot)
	row.mu.Lock()
	defer row.mu.Unlock()
	if row.epoch != epoch {
		return false
	}
	fn(row)
	return true
}

// addresses returns the addresses of all known slot leaders as a set.
func (f *fences) addresses() map[string]bool {
	out := map[string]bool{}
	for i := range f.length() {
		if r := f.route(i); r.address != "" {
			out[r.address] = true
		}
	}
	return out
}

// ledAt returns the slots whose leader has the address, in order.
func (f *fences) ledAt(address string) (slots []int) {
	for i := range f.length() {
		if f.route(i).address == address {
			slots = append(slots, i)
		}
	}
	return slots
}

func (f *fences) length() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.rows)
}
