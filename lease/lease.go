package lease

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// Member is one holder of a lease, with the value of its last renewal.
type Member[K comparable, V any] struct {
	Key   K
	Value V
}

// List is the membership at one version: the holders of leases, sorted by key.
// Equal versions of one table mean equal lists (the versioned lists of article
// 002).
type List[K comparable, V any] struct {
	Version uint64
	Members []Member[K, V] // shared with the table and other readers; must not be modified
}

// Table is a set of leases. It has no clock and no goroutine: now is an
// argument, and the caller must prevent concurrent use, usually by owning the
// table in one goroutine.
type Table[K comparable, V any] struct {
	compare func(a, b K) int
	same    func(a, b V) bool
	leases  map[K]*lease[V]
	version uint64
	list    []Member[K, V] // the result of Snapshot at version; nil if it must be computed
}

type lease[V any] struct {
	value    V
	deadline time.Time
}

// New returns an empty table. compare orders the keys in all results. same
// reports whether two values mean the same membership; if they do not, the
// version changes. It should ignore parts that change with every renewal, such
// as a load figure.
func New[K comparable, V any](compare func(a, b K) int, same func(a, b V) bool) *Table[K, V] {
	return &Table[K, V]{compare: compare, same: same, leases: make(map[K]*lease[V])}
}

// NewOrdered returns an empty table whose keys and values are compared by the
// language's operators.
func NewOrdered[K cmp.Ordered, V comparable]() *Table[K, V] {
	return New(cmp.Compare[K], func(a, b V) bool { return a == b })
}

// Renew extends key's lease to now + duration; it never shortens one. An
// unknown key is registered: as in the original, renewing and joining are one
// request (renewNode). It reports whether the membership changed, because the
// key is new or has another value.
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
		t.changed()
	}
	return changed
}

// Delay makes every lease end later by d, because its owner was late by d and
// could record no renewal (Lateness).
func (t *Table[K, V]) Delay(d time.Duration) {
	for _, l := range t.leases {
		l.deadline = l.deadline.Add(d)
	}
}

// Expire removes every lease that has expired and returns their holders, sorted
// by key. A lease of duration d given at t has expired at t + d.
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
		t.changed()
	}
	return lost
}

// NextExpiry returns the earliest time at which Expire may find an expired
// lease, and whether there are any leases.
func (t *Table[K, V]) NextExpiry() (next time.Time, any bool) {
	for _, l := range t.leases {
		if !any || l.deadline.Before(next) {
			next, any = l.deadline, true
		}
	}
	return next, any
}

// Cancel removes key's lease and returns its value and whether there was one.
func (t *Table[K, V]) Cancel(key K) (value V, held bool) {
	l, held := t.leases[key]
	if !held {
		return value, false
	}
	delete(t.leases, key)
	t.changed()
	return l.value, true
}

// Get returns the value of key's last renewal and whether it holds a lease.
func (t *Table[K, V]) Get(key K) (value V, held bool) {
	if l, held := t.leases[key]; held {
		return l.value, true
	}
	return value, false
}

// Remaining returns how long key's lease still lasts: zero if it has expired or
// is unknown.
func (t *Table[K, V]) Remaining(key K, now time.Time) time.Duration {
	if l, held := t.leases[key]; held {
		return max(0, l.deadline.Sub(now))
	}
	return 0
}

// Len returns the number of leases.
func (t *Table[K, V]) Len() int { return len(t.leases) }

// Version returns the number of changes of the membership: keys registered,
// cancelled, expired, or renewed with another value. Other renewals do not
// count. Each table starts at zero; lists of different leaders are compared by
// the epochs of their terms.
func (t *Table[K, V]) Version() uint64 { return t.version }

// Snapshot returns the membership at the present version, with the values at
// its last change.
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

// Keys returns the keys of all leases, sorted.
func (t *Table[K, V]) Keys() []K {
	return slices.SortedFunc(maps.Keys(t.leases), t.compare)
}

func (t *Table[K, V]) changed() {
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
