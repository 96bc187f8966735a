package registry

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	wirev1 "conclave/wire/v1"
)

func TestGuardHoldsOnlyUnexplainedShrinking(t *testing.T) {
	now := time.Now()
	marked := mark{below: 10, until: now.Add(7 * time.Second)}
	incomplete := mark{below: 10, until: now.Add(7 * time.Second), incomplete: now.Add(3 * time.Second)}
	without := incomplete
	without.withdrawn = []uint32{9}
	list := func(publishers ...uint32) *datum {
		return datumOf(&wirev1.Datum{Values: make([]string, len(publishers)), Publishers: publishers}, 0)
	}
	first := func(n int) *datum {
		publishers := make([]uint32, n)
		for i := range publishers {
			publishers[i] = uint32(i)
		}
		return list(publishers...)
	}
	has := func(version int64, count int) *subscription {
		return &subscription{version: version, hash: 1, count: count, publishers: first(count).message.Publishers}
	}
	old := func(s *subscription) *subscription { s.publishers = nil; return s }
	equal := func(s *subscription, version int64) *subscription { s.sure = version; return s }
	since := func(s *subscription, d time.Duration) *subscription { s.held = now.Add(-d); return s }
	for _, c := range []struct {
		why    string
		mark   mark
		sub    *subscription
		list   *datum
		hold   bool
		reread time.Duration
	}{
		{"not marked", mark{}, has(5, 10), first(0), false, 0},
		{"the mark has ended", mark{below: 10, until: now}, has(5, 10), first(0), false, 0},
		{"empty", marked, has(5, 10), first(0), true, 7 * time.Second},
		{"under half", marked, has(5, 10), first(4), true, 7 * time.Second},
		{"just half", marked, has(5, 10), first(5), false, 0},
		{"growth", marked, has(5, 10), first(11), false, 0},
		{"was pushed since the removal: what shrinks now is explained", marked, has(10, 10), first(0), false, 0},
		{"first push, empty", marked, &subscription{}, first(0), true, 7 * time.Second},
		{"first push, one of many", marked, &subscription{}, first(1), false, 0},
		{"the slot lacks registrations, first push", incomplete, &subscription{to: &Owner{}}, first(5), false, 0},
		{"the slot lacks registrations, first push to one that may have had more", incomplete, &subscription{to: &Owner{Foreign: true}}, first(5), true, 3 * time.Second},
		{"the slot lacks registrations, one of ten is missing", incomplete, has(5, 10), first(9), true, 3 * time.Second},
		{"the slot lacks registrations, another stands in", incomplete, has(5, 2), list(0, 7), true, 3 * time.Second},
		{"the slot lacks registrations, the one that is missing has withdrawn", without, has(5, 10), first(9), false, 0},
		{"the slot lacks registrations, one has withdrawn, another is missing", without, has(5, 10), first(8), true, 3 * time.Second},
		{"the slot lacks registrations, none of this list", incomplete, has(5, 10), first(11), false, 0},
		{"the slot lacks registrations, under half", incomplete, has(5, 10), first(4), true, 7 * time.Second},
		{"the slot lacked registrations", mark{below: 10, until: now.Add(time.Second), incomplete: now}, has(5, 10), first(9), false, 0},
		{"the slot lacks registrations, and had all of the list since", incomplete, equal(has(5, 10), 10), first(9), false, 0},
		{"the slot lacks registrations, an older client has more values", incomplete, old(has(5, 10)), first(9), true, 3 * time.Second},
		{"the slot lacks registrations, an older client has as many", incomplete, old(has(5, 10)), list(11, 12, 13, 14, 15, 16, 17, 18, 19, 20), false, 0},
		{"was equal since the removal: what shrinks now is explained", marked, equal(has(5, 10), 10), first(0), false, 0},
		{"was equal before the removal", marked, equal(has(5, 10), 9), first(0), true, 7 * time.Second},
		{"the mark outlasts the limit", mark{below: 10, until: now.Add(time.Hour)}, has(5, 10), first(0), true, 20 * time.Second},
		{"held for a while already", mark{below: 10, until: now.Add(time.Hour)}, since(has(5, 10), 15*time.Second), first(0), true, 5 * time.Second},
		{"held for the longest time allowed", mark{below: 10, until: now.Add(time.Hour)}, since(has(5, 10), 20*time.Second), first(0), false, 0},
	} {
		g := guard{true, 15 * time.Second}
		reread, hold := g.hold(c.mark, c.sub, c.list, now)
		assert.Equal(t, c.hold, hold, c.why)
		if c.hold {
			assert.Equal(t, c.reread, reread.Sub(now), c.why)
		}
		g.on = false
		_, hold = g.hold(c.mark, c.sub, c.list, now)
		assert.False(t, hold, "switched off: %s", c.why)
	}
}

// A subscription without a list may limit how long it waits for one. The list
// that it gets then is marked as unconfirmed; once it has a list, it waits like
// any other.
func TestGuard_RespectsTheLimitOfASubscription(t *testing.T) {
	now := time.Now()
	m := mark{below: 10, until: now.Add(12 * time.Second)}
	g := guard{true, 15 * time.Second}
	empty := datumOf(&wirev1.Datum{}, 0)
	s := &subscription{limit: 2 * time.Second}
	reread, hold := g.hold(m, s, empty, now)
	assert.True(t, hold)
	assert.Equal(t, 2*time.Second, reread.Sub(now))
	s.held = now
	now = now.Add(2 * time.Second)
	_, hold = g.hold(m, s, empty, now)
	assert.False(t, hold)

	s.hash, s.count = 1, 10
	reread, hold = g.hold(m, s, empty, now)
	assert.True(t, hold)
	assert.Equal(t, 10*time.Second, reread.Sub(now))
}

// Ten clients that were cut off together expire one by one. No list is under
// half of the one pushed before it, and yet the lists do not shrink to nothing.
func TestGuardAddsUpSmallLosses(t *testing.T) {
	now := time.Now()
	r := New(15*time.Second, 0, nil)
	r.Resize(1, now)
	owner, key := &Owner{}, keyOf("x")
	_, err := r.Subscribe(owner, &wirev1.Subscription{Id: "s", DataInfoId: key}, now)
	require.NoError(t, err)
	s := owner.subs["s"]
	version := int64(0)
	offer := func(count int, unexplained bool) {
		version++
		now = now.Add(100 * time.Millisecond)
		f := &wirev1.Fetched{Datum: &wirev1.Datum{DataInfoId: key, Version: version}}
		for i := range count {
			f.Datum.Values = append(f.Datum.Values, fmt.Sprint(i))
		}
		f.UnconfirmedMs, f.UnexplainedVersion = 15_000, 2
		if unexplained {
			f.UnexplainedVersion = version
		}
		r.Fetched(Reads{}, []*wirev1.Fetched{f}, now)
	}
	confirm := func() {
		now = now.Add(15 * time.Second)
		r.Fetched(Reads{}, []*wirev1.Fetched{{Same: true, Datum: &wirev1.Datum{DataInfoId: key, Version: version}}}, now)
	}
	offer(10, false)
	for n := 9; n >= 0; n-- {
		offer(n, true)
	}
	assert.Equal(t, 5, s.count, "it may lose half")
	offer(8, true)
	offer(4, true)
	assert.Equal(t, 8, s.count, "growth is pushed, and does not allow further losses")
	confirm()
	assert.Equal(t, 4, s.count, "the mark has ended")
	offer(2, true)
	assert.Equal(t, 2, s.count, "half of what was confirmed")
	offer(1, true)
	assert.Equal(t, 2, s.count)
	offer(10, true)
	offer(6, true)
	offer(2, false) // four were withdrawn: six of ten are not lost
	assert.Equal(t, 2, s.count, "a withdrawal passes")
	offer(3, true)
	assert.Equal(t, 3, s.count)
}
