package lease

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// Member is one holder of a lease, and what it said of itself.
type Member[K comparable, V any] struct {
	Key   K
	Value V
}

// List is the membership at one version: who has a lease, sorted by key. Equal
// versions of one table are the same list, so whoever has the version has the
// list (article 002's versioned lists).
type List[K comparable, V any] struct {
	Version uint64
	Members []Member[K, V] // shared with the table and every other reader: do not change it
}

// Table keeps leases. It has no clock and no goroutine: now is an argument, and
// the caller guards the table, usually by owning it in one goroutine.
type Table[K comparable, V any] struct {
	compare func(a, b K) int
	same    func(a, b V) bool
	leases  map[K]*lease[V]
	version uint64
	list    []Member[K, V] // what Snapshot gives out at version; nil when it must be made anew
}

type lease[V any] struct {
	value    V
	deadline time.Time
}

// New makes an empty table. compare orders keys in all that it gives out. same
// says whether two values are the same membership; when it says no the version
// moves, so leave out what changes with every renewal, such as a load figure.
func New[K comparable, V any](compare func(a, b K) int, same func(a, b V) bool) *Table[K, V] {
	return &Table[K, V]{compare: compare, same: same, leases: make(map[K]*lease[V])}
}

// NewOrdered makes an empty table of keys and values that the language compares.
func NewOrdered[K cmp.Ordered, V comparable]() *Table[K, V] {
	return New(cmp.Compare[K], func(a, b V) bool { return a == b })
}

// Renew gives key a lease until now + duration; a renewal never shortens one. An
// unknown key is registered, as in the original: to renew and to join are one
// request. It says whether the membership changed: the key is new, or its value.
func (t *Table[K, V]) Renew(key K, value V, now time.Time, duration time.Duration) (changed bool) {
	l, known := t.leases[key]
	if !known {
		l = &lease[V]{}
		t.leases[key] = l
	}
	changed = !known || !t.same(l.value, value)
	l.value = value
	l.extend(now.Add(duration))
	if changed {
		t.moved()
	}
	return changed
}

// Extend gives every key a lease until at least now + duration. A new leader
// does so before it expires anyone: nobody could renew while there was no leader.
func (t *Table[K, V]) Extend(now time.Time, duration time.Duration) {
	for _, l := range t.leases {
		l.extend(now.Add(duration))
	}
}

// Expire takes out every lease that has run out and returns what they held,
// sorted by key. A lease of duration d given at t has run out at t + d.
func (t *Table[K, V]) Expire(now time.Time) []Member[K, V] {
	var lost []Member[K, V]
	for key, l := range t.leases {
		if !now.Before(l.deadline) {
			lost = append(lost, Member[K, V]{key, l.value})
			delete(t.leases, key)
		}
	}
	if len(lost) > 0 {
		t.sort(lost)
		t.moved()
	}
	return lost
}

// NextExpiry is when Expire may next find something; false when nobody holds a
// lease.
func (t *Table[K, V]) NextExpiry() (next time.Time, any bool) {
	for _, l := range t.leases {
		if !any || l.deadline.Before(next) {
			next, any = l.deadline, true
		}
	}
	return next, any
}

// Cancel ends key's lease now, and returns what it held.
func (t *Table[K, V]) Cancel(key K) (value V, held bool) {
	l, held := t.leases[key]
	if !held {
		return value, false
	}
	delete(t.leases, key)
	t.moved()
	return l.value, true
}

// Get is what key said at its last renewal.
func (t *Table[K, V]) Get(key K) (value V, held bool) {
	if l, held := t.leases[key]; held {
		return l.value, true
	}
	return value, false
}

// Remaining is how long key's lease still lasts: zero once it has run out,
// and for one that is unknown.
func (t *Table[K, V]) Remaining(key K, now time.Time) time.Duration {
	if l, held := t.leases[key]; held {
		return max(0, l.deadline.Sub(now))
	}
	return 0
}

// Len is how many hold a lease.
func (t *Table[K, V]) Len() int { return len(t.leases) }

// Version counts the changes of membership: a key registered, cancelled, expired
// or with another value. Renewals do not move it. It begins anew with each
// table: who compares lists of two leaders needs an epoch of their term.
func (t *Table[K, V]) Version() uint64 { return t.version }

// Snapshot is the membership at the present version, with the values as they
// were when it moved last.
func (t *Table[K, V]) Snapshot() List[K, V] {
	if t.list == nil {
		t.list = make([]Member[K, V], 0, len(t.leases))
		for key, l := range t.leases {
			t.list = append(t.list, Member[K, V]{key, l.value})
		}
		t.sort(t.list)
	}
	return List[K, V]{Version: t.version, Members: t.list}
}

// Keys are all who hold a lease, sorted.
func (t *Table[K, V]) Keys() []K {
	return slices.SortedFunc(maps.Keys(t.leases), t.compare)
}

func (t *Table[K, V]) moved() {
	t.version++
	t.list = nil
}

func (t *Table[K, V]) sort(members []Member[K, V]) {
	slices.SortFunc(members, func(a, b Member[K, V]) int { return t.compare(a.Key, b.Key) })
}

func (l *lease[V]) extend(deadline time.Time) {
	if deadline.After(l.deadline) {
		l.deadline = deadline
	}
}
