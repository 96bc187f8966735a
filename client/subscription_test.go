package client_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/client"
	"conclave/wire"
	"conclave/wire/list"
	wirev1 "conclave/wire/v1"
)

// delta sends the changes from one content to another to every subscription to it.
func (l *fakeLink) delta(t *testing.T, from, to int64, before, after []string) {
	l.out <- &wirev1.ServerMessage{Pushes: []*wirev1.Push{l.deltaPush(t, from, to, before, after)}}
}

func (l *fakeLink) deltaPush(t *testing.T, from, to int64, before, after []string) *wirev1.Push {
	d := list.New(before, nil, 0).DeltaTo(list.New(after, nil, 0))
	require.NotNil(t, d)
	d.BaseVersion, d.BaseHash, d.Version = from, list.ContentHash(before), to
	push := &wirev1.Push{Delta: d, Hash: list.ContentHash(after)}
	push.Subscriptions = []string{l.subscriptions()[0].GetId()}
	return push
}

func TestDelta_SubscriberSeesWholeLists(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		s1 := w.session("session-1")
		c := w.client(s1)
		sub := w.subscribed(c, s1)
		assert.True(t, s1.link().messages()[0].GetHello().GetDeltas())

		one := strings.Split(strings.Repeat("x", 1000)+strings.Repeat(","+strings.Repeat("y", 1000), 30), ",")
		two := append(one[:31:31], "new")
		three := append([]string{"first"}, two...)
		s1.link().push("svc", 1, one...)
		assert.Equal(t, one, (<-sub.C()).Values)
		s1.link().delta(t, 1, 2, one, two)
		got := <-sub.C()
		assert.Equal(t, two, got.Values)
		assert.EqualValues(t, 2, got.Version)

		// Deltas to what the subscription has not: one of an older version is
		// ignored, a newer one makes the client ask for the whole list, once.
		s1.link().delta(t, 1, 2, one, two)
		synctest.Wait()
		assert.Len(t, s1.link().subscriptions(), 1)
		l := s1.link()
		l.out <- &wirev1.ServerMessage{Pushes: []*wirev1.Push{l.deltaPush(t, 3, 4, one, three), l.deltaPush(t, 4, 5, three, two)}}
		w.eventually("asks again", func() bool { return len(s1.link().subscriptions()) == 2 })
		synctest.Wait()
		require.Len(t, s1.link().subscriptions(), 2)
		asked := s1.link().subscriptions()[1]
		assert.Equal(t, s1.link().subscriptions()[0].GetId(), asked.GetId())
		assert.EqualValues(t, 2, asked.GetVersion())
		assert.Equal(t, list.ContentHash(two), asked.GetHash())
		last, _ := sub.Last()
		assert.Equal(t, two, last.Values, "it keeps what it has")
		// The session may have taken what the client has for the newest, and send no
		// whole list: the next delta that does not fit is answered as well.
		l.delta(t, 4, 5, three, two)
		w.eventually("asks once more", func() bool { return len(l.subscriptions()) == 3 })
		s1.link().push("svc", 5, three...)
		assert.Equal(t, three, (<-sub.C()).Values)
		s1.link().delta(t, 9, 10, one, two)
		w.eventually("asks again, for another one", func() bool { return len(s1.link().subscriptions()) == 4 })
	})
}

// A change is made in the place of what it replaces, and not in what an application has.
func TestDelta_ChangesNothingThatWasGiven(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		s1 := w.session("session-1")
		c := w.client(s1)
		sub := w.subscribed(c, s1)
		calls := make(chan client.Change, 2)
		_, err := c.Subscribe("svc", client.OnChange(func(c client.Change) { calls <- c }))
		require.NoError(t, err)
		w.eventually("both are subscribed", func() bool { return len(s1.link().subscriptions()) == 2 })

		var one []string
		for i := range 200 {
			one = append(one, fmt.Sprint("value ", 100+i))
		}
		two := slices.Concat(one[:7], []string{"new"}, one[8:])
		l := s1.link()
		both := []string{l.subscriptions()[0].GetId(), l.subscriptions()[1].GetId()}
		push := func(p *wirev1.Push, to ...string) {
			p.Subscriptions = to
			l.out <- &wirev1.ServerMessage{Pushes: []*wirev1.Push{p}}
		}
		push(&wirev1.Push{Datum: &wirev1.Datum{DataInfoId: sub.Data().String(), Version: 1, Values: one}, Hash: list.ContentHash(one)}, both...)
		pushed := <-sub.C()
		last, _ := sub.Last()
		assert.Equal(t, one, (<-calls).Added)
		push(l.deltaPush(t, 1, 2, one, two), both[1])
		assert.Equal(t, []string{"new"}, (<-calls).Added)
		same, _ := sub.Last()
		assert.Equal(t, one, same.Values, "of another subscription, which had the same message")
		push(l.deltaPush(t, 1, 2, one, two), both[0])
		assert.Equal(t, two, (<-sub.C()).Values)
		assert.Equal(t, one, pushed.Values)
		assert.Equal(t, one, last.Values)
		push(l.deltaPush(t, 2, 3, two, one), both...)
		assert.Equal(t, one, (<-sub.C()).Values)
		change := <-calls
		assert.Equal(t, []string{one[7]}, change.Added)
		assert.Equal(t, []string{"new"}, change.Removed)
	})
}

// parts returns a push of a list in parts of about two values.
func (l *fakeLink) parts(version int64, values []string) (pushes []*wirev1.Push) {
	whole := list.New(values, []uint32{1, 2}, 0)
	for at, last := (list.Position{}), false; !last; {
		p := &wirev1.Push{Subscriptions: []string{l.subscriptions()[0].GetId()}, Hash: whole.Hash(), Datum: &wirev1.Datum{Version: version}}
		p.Part, at, last = whole.Part(p.Datum, at, 2000)
		pushes = append(pushes, p)
	}
	return pushes
}

func (l *fakeLink) sendParts(pushes ...*wirev1.Push) {
	for _, p := range pushes {
		l.out <- &wirev1.ServerMessage{Pushes: []*wirev1.Push{p}}
	}
}

func TestParts_SubscriberSeesWholeLists(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		s1 := w.session("session-1")
		c := w.client(s1)
		sub := w.subscribed(c, s1)
		l := s1.link()
		assert.True(t, l.messages()[0].GetHello().GetParts())
		var one []string
		for i := range 9 {
			one = append(one, fmt.Sprint(i, strings.Repeat("x", 1000)))
		}
		two := append([]string{"first"}, one...)

		first := l.parts(1, one)
		require.Greater(t, len(first), 4)
		l.sendParts(first[:len(first)-1]...)
		synctest.Wait()
		_, seen := sub.Last()
		assert.False(t, seen, "not before it is whole")
		l.sendParts(first[len(first)-1])
		assert.Equal(t, one, (<-sub.C()).Values)

		// A part that does not fit makes the client ask for the whole list, once; what
		// still comes of the old one is ignored.
		second := l.parts(2, two)
		l.sendParts(second[0], second[2], second[3], second[4])
		w.eventually("asks again", func() bool { return len(l.subscriptions()) == 2 })
		synctest.Wait()
		require.Len(t, l.subscriptions(), 2)
		asked := l.subscriptions()[1]
		assert.EqualValues(t, 1, asked.GetVersion())
		assert.Equal(t, []uint32{1, 2}, asked.GetPublishers())
		last, _ := sub.Last()
		assert.Equal(t, one, last.Values, "it keeps what it has")
		l.sendParts(second...)
		assert.Equal(t, two, (<-sub.C()).Values)

		// Parts of an older version are ignored, and so is the rest of a list that
		// another push has overtaken.
		l.sendParts(first...)
		l.sendParts(l.parts(3, one)[0])
		l.push("svc", 4, "four")
		assert.Equal(t, []string{"four"}, (<-sub.C()).Values)
		l.sendParts(l.parts(3, one)[1:]...)
		synctest.Wait()
		assert.Len(t, l.subscriptions(), 2)
	})
}

// A list that cannot be sent is an error of the subscription until the next push.
func TestParts_WithheldListIsAnError(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		s1 := w.session("session-1")
		c := w.client(s1)
		sub := w.subscribed(c, s1)
		l := s1.link()
		l.push("svc", 1, "one")
		<-sub.C()
		l.out <- &wirev1.ServerMessage{Withheld: []*wirev1.Refusal{{Id: l.subscriptions()[0].GetId(), Code: string(wire.CodeTooLarge), Message: "too much"}, {Id: "unknown"}}}
		w.eventually("the error is shown", func() bool { return wire.CodeOf(sub.Err()) == wire.CodeTooLarge })
		last, _ := sub.Last()
		assert.Equal(t, []string{"one"}, last.Values)
		l.push("svc", 2, "two")
		assert.Equal(t, []string{"two"}, (<-sub.C()).Values)
		assert.NoError(t, sub.Err())
	})
}

// A list that is announced as larger than the client takes is an error of its
// subscription, and is not asked for again. What fits is received.
func TestParts_ListAboveTheLimitIsAnError(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		s1 := w.session("session-1")
		c := w.configured(client.Config{Sessions: []string{s1.address}, MaxListBytes: 5000})
		sub := w.subscribed(c, s1)
		l := s1.link()
		l.push("svc", 1, "one")
		<-sub.C()
		value := strings.Repeat("x", 1000)
		l.sendParts(l.parts(2, []string{value, value, value, value, value})...)
		w.eventually("the error is shown", func() bool { return wire.CodeOf(sub.Err()) == wire.CodeTooLarge })
		synctest.Wait()
		last, _ := sub.Last()
		assert.Equal(t, []string{"one"}, last.Values)
		assert.Len(t, l.subscriptions(), 1)
		l.sendParts(l.parts(3, []string{value, value, value})...)
		assert.Len(t, (<-sub.C()).Values, 3)
		assert.NoError(t, sub.Err())
	})
}
