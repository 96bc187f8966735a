package session

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/internal/contain"
	"conclave/session/registry"
	wirev1 "conclave/wire/v1"
)

// Large messages to one address wait for each other, and for no other address; one
// that is larger than all may be is sent alone.
func TestLargeSends_OfOneAddressWait(t *testing.T) {
	l := newLargeSends(2 << 20)
	one, two, three := l.enter("a", 1<<20), l.enter("a", 1<<20), l.enter("a", 300<<10)
	assert.Equal(t, []bool{false, false, true}, []bool{one.waits(), two.waits(), three.waits()})
	small, other := l.enter("a", 200<<10), l.enter("b", 8<<20)
	assert.False(t, small.waits(), "a small one")
	assert.False(t, other.waits(), "another address")
	l.leave(one)
	assert.False(t, three.waits())
	after := l.enter("b", 1<<20)
	assert.True(t, after.waits())
	l.leave(other)
	assert.False(t, after.waits())
	for _, x := range []*sendTurn{two, three, small, after} {
		l.leave(x)
	}
	assert.Empty(t, l.by)
}

// What has waited longest is next, also if something smaller would fit before it. One
// that is not sent any more gives its turn up.
func TestLargeSends_AreInOrder(t *testing.T) {
	l := newLargeSends(2 << 20)
	var all []*sendTurn
	for _, bytes := range []int{2 << 20, 2 << 20, 1 << 20, 1 << 20, 300 << 10} {
		all = append(all, l.enter("a", bytes))
	}
	waiting := func() (out []int) {
		for i, x := range all {
			if x.waits() {
				out = append(out, i)
			}
		}
		return out
	}
	assert.Equal(t, []int{1, 2, 3, 4}, waiting())
	l.leave(all[0])
	assert.Equal(t, []int{2, 3, 4}, waiting())
	l.leave(all[2])
	assert.Equal(t, []int{2, 3, 4}, waiting(), "it waited, and is gone")
	all = slices.Delete(all, 2, 3)
	l.leave(all[1])
	assert.Empty(t, waiting())
	l.leave(all[2])
	l.leave(all[3])
	assert.Empty(t, l.by)
}

// waitingOutbox returns an outbox whose large messages have to wait, until leave is called.
func waitingOutbox(sent *[]*wirev1.ServerMessage) (o *outbox, leave func()) {
	l := newLargeSends(1 << 20)
	before := l.enter("h", 1<<20)
	o = &outbox{large: l, host: "h", unread: func() {}, failed: func() {}}
	o.send = func(m *wirev1.ServerMessage) error { *sent = append(*sent, m); return nil }
	return o, func() { l.leave(before) }
}

// addLarge adds a push with a list of more than largeSend bytes, and a pong.
func addLarge(t *testing.T, o *outbox, pong uint64) {
	r, now := registry.New(time.Hour, 0, nil), time.Now()
	r.Resize(1, now)
	r.Adopt(0, conclave.Epoch{Term: 1}, "data-1", now)
	const key = "svc#@#DEFAULT_INSTANCE_ID#@#DEFAULT_GROUP"
	_, err := r.Subscribe(&registry.Owner{Client: "a", Host: "h"}, &wirev1.Subscription{Id: "s", DataInfoId: key}, now)
	require.NoError(t, err)
	reads, _ := r.TakeReads(0, "data-1", 10, now)
	pushes, counted := r.Fetched(reads, []*wirev1.Fetched{{Datum: &wirev1.Datum{DataInfoId: key, Version: 1, Values: []string{strings.Repeat("v", 2*largeSend)}, Publishers: []uint32{1}}}}, now)
	require.True(t, counted)
	o.add(func(what *registry.Outbox) {
		what.Pong = pong
		for _, p := range pushes {
			what.Push(p)
		}
	})
}

// Pongs and other answers do not wait behind lists that wait for their turn.
func TestOutbox_AnswersDoNotWaitForTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sent []*wirev1.ServerMessage
		o, leave := waitingOutbox(&sent)
		addLarge(t, o, 1)
		synctest.Wait()
		pong(o, 2)
		synctest.Wait()
		time.Sleep(10 * sendLimit) // it is not the client's fault
		pong(o, 3)
		synctest.Wait()
		require.Equal(t, 3, len(sent)) //nolint:testifylint // Len would print the list
		for i, m := range sent {
			assert.EqualValues(t, i+1, m.GetPong())
			assert.Empty(t, m.GetPushes())
		}
		leave()
		synctest.Wait()
		require.Len(t, sent, 4)
		assert.Len(t, sent[3].GetPushes(), 1)
		assert.Empty(t, o.large.by)
	})
}

// A connection that ends does not wait for its turn, nor for others.
func TestOutbox_EndDoesNotWaitForTurns(t *testing.T) {
	for name, end := range map[string]func(*outbox){"cut": (*outbox).cut, "finish": (*outbox).finish} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var sent []*wirev1.ServerMessage
				o, leave := waitingOutbox(&sent)
				addLarge(t, o, 0)
				synctest.Wait()
				begun := time.Now()
				end(o)
				o.wait()
				assert.Zero(t, time.Since(begun))
				assert.Empty(t, sent)
				leave()
				assert.Empty(t, o.large.by)
			})
		})
	}
}

// A message whose sending panics leaves its turn.
func TestOutbox_PanicLeavesItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sent []*wirev1.ServerMessage
		o, leave := waitingOutbox(&sent)
		leave()
		o.send = func(*wirev1.ServerMessage) error { panic("a defect") }
		before := contain.Count()
		addLarge(t, o, 0)
		o.wait()
		assert.Equal(t, before+1, contain.Count())
		assert.Empty(t, o.large.by)
	})
}
