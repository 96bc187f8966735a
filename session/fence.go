package session

import (
	"sync"
	"time"

	"conclave"
	"conclave/internal/trace"
)

// fences keeps, for every slot, the highest leader epoch that this session has
// adopted and where that leader answers. An epoch is adopted from the slot
// table, from a data node that asks for a diff, or from one that says that it
// serves at it; whoever brings it, it was written under a term first. It never
// falls: what an older leader says afterwards is not counted.
type fences struct {
	trace trace.Sink // claims are made with the row's lock held

	mu   sync.Mutex // guards the length of rows
	rows []*fence
}

// fence is one slot's. Its mutex is the outermost lock of the session: it is
// held while an answer of a leader is counted (registry, topics and outboxes
// lock inside), so that no answer of an older epoch is counted after a newer
// one was adopted. Only memory is touched under it.
type fence struct {
	slot  int
	trace trace.Sink

	mu      sync.Mutex // guards the rest
	epoch   conclave.Epoch
	address string    // of the leader at epoch; "" while it is not known
	since   time.Time // when epoch was adopted
	pushed  int64     // the highest version given to any subscriber of this slot
}

// of is the fence of a slot, made when it is first asked for: a data node may
// ask before this session has a table.
func (f *fences) of(slot int) *fence {
	f.mu.Lock()
	defer f.mu.Unlock()
	for len(f.rows) <= slot {
		f.rows = append(f.rows, &fence{slot: len(f.rows), trace: f.trace})
	}
	return f.rows[slot]
}

// adopt takes a leader epoch that is not older than what is held (ok), and says
// whether that changed anything. An equal epoch may still bring the address.
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

// route is where a slot is led, as far as known.
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

// count runs fn if epoch is still the slot's: an answer given at it counts.
// fn may lock the registry, the topics and outboxes, and nothing else.
func (f *fences) count(slot int, epoch conclave.Epoch, fn func(*fence)) bool {
	row := f.of(slot)
	row.mu.Lock()
	defer row.mu.Unlock()
	if row.epoch != epoch {
		return false
	}
	fn(row)
	return true
}

// addresses lists where slots are led, as a set.
func (f *fences) addresses() map[string]bool {
	out := map[string]bool{}
	for i := range f.length() {
		if r := f.route(i); r.address != "" {
			out[r.address] = true
		}
	}
	return out
}

// ledAt lists the slots led at an address, in order.
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
