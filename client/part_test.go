package client_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/client"
	"conclave/wire"
	wirev1 "conclave/wire/v1"
)

// parts returns a push of a list in parts of about two values.
func (l *fakeLink) parts(version int64, values []string) (pushes []*wirev1.Push) {
	list := &wire.List{Values: values, Publishers: []uint32{1, 2}}
	for at := (wire.Position{}); !list.Ends(at); {
		p := &wirev1.Push{Subscriptions: []string{l.subscriptions()[0].GetId()}, Hash: wire.ContentHash(values), Datum: &wirev1.Datum{Version: version}}
		p.Datum.Values, p.Datum.Publishers, p.Part, at = list.Part(at, list.Bytes(), 2000)
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
		sub, err := c.Subscribe("svc")
		require.NoError(t, err)
		w.eventually("subscribed", func() bool { return len(s1.link().subscriptions()) == 1 })
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
		sub, err := c.Subscribe("svc")
		require.NoError(t, err)
		w.eventually("subscribed", func() bool { return len(s1.link().subscriptions()) == 1 })
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
		sub, err := c.Subscribe("svc")
		require.NoError(t, err)
		w.eventually("subscribed", func() bool { return len(s1.link().subscriptions()) == 1 })
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
