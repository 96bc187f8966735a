package client_test

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/wire"
	wirev1 "conclave/wire/v1"
)

// delta sends the changes from one content to another to every subscription to it.
func (l *fakeLink) delta(t *testing.T, from, to int64, before, after []string) {
	l.out <- &wirev1.ServerMessage{Pushes: []*wirev1.Push{l.deltaPush(t, from, to, before, after)}}
}

func (l *fakeLink) deltaPush(t *testing.T, from, to int64, before, after []string) *wirev1.Push {
	d := (&wire.List{Values: before}).DeltaTo(&wire.List{Values: after})
	require.NotNil(t, d)
	d.BaseVersion, d.BaseHash, d.Version = from, wire.ContentHash(before), to
	push := &wirev1.Push{Delta: d, Hash: wire.ContentHash(after)}
	push.Subscriptions = []string{l.subscriptions()[0].GetId()}
	return push
}

func TestDelta_SubscriberSeesWholeLists(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		s1 := w.session("session-1")
		c := w.client(s1)
		sub, err := c.Subscribe("svc")
		require.NoError(t, err)
		w.eventually("subscribed", func() bool { return len(s1.link().subscriptions()) == 1 })
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
		assert.Equal(t, wire.ContentHash(two), asked.GetHash())
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
