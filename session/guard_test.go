package session

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	wirev1 "conclave/wire/v1"
)

func TestGuardHoldsOnlyUnexplainedShrinking(t *testing.T) {
	now := time.Now()
	marked := mark{below: 10, until: now.Add(7 * time.Second)}
	has := func(version int64, count int) *subscription {
		return &subscription{version: version, hash: 1, count: count}
	}
	since := func(s *subscription, d time.Duration) *subscription { s.held = now.Add(-d); return s }
	for _, c := range []struct {
		why    string
		mark   mark
		sub    *subscription
		count  int
		hold   bool
		reread time.Duration
	}{
		{"not marked", mark{}, has(5, 10), 0, false, 0},
		{"the mark has ended", mark{10, now}, has(5, 10), 0, false, 0},
		{"empty", marked, has(5, 10), 0, true, 7 * time.Second},
		{"under half", marked, has(5, 10), 4, true, 7 * time.Second},
		{"just half", marked, has(5, 10), 5, false, 0},
		{"growth", marked, has(5, 10), 11, false, 0},
		{"was pushed since the removal: what shrinks now is explained", marked, has(10, 10), 0, false, 0},
		{"first push, empty", marked, &subscription{}, 0, true, 7 * time.Second},
		{"first push, one of many", marked, &subscription{}, 1, false, 0},
		{"the mark outlasts the limit", mark{10, now.Add(time.Hour)}, has(5, 10), 0, true, 20 * time.Second},
		{"held for a while already", mark{10, now.Add(time.Hour)}, since(has(5, 10), 15*time.Second), 0, true, 5 * time.Second},
		{"held for as long as may be", mark{10, now.Add(time.Hour)}, since(has(5, 10), 20*time.Second), 0, false, 0},
	} {
		g := newGuard(15 * time.Second)
		reread, hold := g.hold(c.mark, c.sub, c.count, now)
		assert.Equal(t, c.hold, hold, c.why)
		if c.hold {
			assert.Equal(t, c.reread, reread.Sub(now), c.why)
		}
		g.on = false
		_, hold = g.hold(c.mark, c.sub, c.count, now)
		assert.False(t, hold, "switched off: %s", c.why)
	}
}

func TestOutboxKeepsTheNewestOnly(t *testing.T) {
	o := newOutbox()
	at := func(v int64) *datum {
		return &datum{message: &wirev1.Datum{DataInfoId: "x", Version: v, Values: []string{"a"}}, hash: uint64(v)}
	}
	for v := range int64(10_000) {
		o.push("slow", at(v))
	}
	assert.Less(t, len(o.pushes), 100, "bounded by what is subscribed")
	both := at(10_000)
	o.push("slow", both)
	o.push("other", both)
	m := o.next()
	if assert.Len(t, m.GetPushes(), 1, "one datum travels once") {
		assert.Equal(t, []string{"slow", "other"}, m.GetPushes()[0].GetSubscriptions())
		assert.EqualValues(t, 10_000, m.GetPushes()[0].GetDatum().GetVersion())
	}
	assert.Nil(t, o.next())
	o.push("slow", at(10_001))
	assert.Len(t, o.next().GetPushes(), 1)
}

func TestOutboxMessagesAreBounded(t *testing.T) {
	o := newOutbox()
	large := make([]byte, 300<<10)
	for i := range 10 {
		o.push(string(rune('a'+i)), newDatum(&wirev1.Datum{Version: 1, Values: []string{string(large)}}, uint64(i+1)))
	}
	o.add(func() {
		for range 3 * messageAcks {
			o.accepted = append(o.accepted, ack{id: "x", version: 1})
		}
	})
	messages, pushes, acks := 0, 0, 0
	for m := o.next(); m != nil; m = o.next() {
		messages++
		pushes, acks = pushes+len(m.GetPushes()), acks+len(m.GetAccepted())
		assert.LessOrEqual(t, len(m.GetPushes()), 4)
	}
	assert.Equal(t, 10, pushes)
	assert.Equal(t, 3*messageAcks, acks)
	assert.Equal(t, 3, messages)
}

func TestRotateServesEverySlotInTurn(t *testing.T) {
	assert.Equal(t, []int{5, 9, 1, 3}, rotate([]int{1, 3, 5, 9}, 3))
	assert.Equal(t, []int{5, 9, 1, 3}, rotate([]int{1, 3, 5, 9}, 4))
	assert.Equal(t, []int{1, 3, 5, 9}, rotate([]int{1, 3, 5, 9}, 9))
	assert.Equal(t, []int{1, 3, 5, 9}, rotate([]int{1, 3, 5, 9}, -1))
	assert.Empty(t, rotate(nil, 3))
}

func TestPatienceDoublesAndEndsWithTheRoutes(t *testing.T) {
	p := newPatience(func() float64 { return 0 })
	now := time.Now()
	var waits []time.Duration
	for range 8 {
		p.failed(1, now)
		waits = append(waits, p.until(1, now).Sub(now))
	}
	ms := time.Millisecond
	assert.Equal(t, []time.Duration{1 * ms, 2 * ms, 4 * ms, 8 * ms, 16 * ms, 32 * ms, 50 * ms, 50 * ms}, waits)
	assert.True(t, p.until(2, now).IsZero())
	p.renew(1)
	assert.True(t, p.until(1, now).IsZero(), "a new table ends all pauses")
	p.failed(1, now)
	p.succeeded(1)
	p.failed(1, now)
	assert.Equal(t, ms, p.until(1, now).Sub(now))
}
