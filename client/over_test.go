package client_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/client"
	"conclave/wire"
	wirev1 "conclave/wire/v1"
)

// limited makes a session refuse what is sent to it while full is set.
func limited(s *fakeSession) (full *atomic.Bool) {
	full = new(atomic.Bool)
	s.set(func() {
		s.check = func(id string) *wirev1.Refusal {
			if !full.Load() {
				return nil
			}
			return &wirev1.Refusal{Id: id, Code: string(wire.CodeLimitReached), Message: "there is no room"}
		}
	})
	return full
}

// What exceeds a limit of a session is an error of the publication for now: it is sent
// to that session again, and the error ends when it is accepted.
func TestOver_PublicationIsSentAgain(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		one := w.session("s1")
		full := limited(one)
		full.Store(true)
		c := w.client(one)
		ctx, cancel := within(10 * time.Minute)
		defer cancel()
		p, err := c.Publish(ctx, "svc", []string{"a"})
		require.NoError(t, err)
		assert.Equal(t, wire.CodeLimitReached, wire.CodeOf(p.Accepted(ctx)))
		for range 100 { // it is not sent all the time
			time.Sleep(time.Second)
		}
		sent := 0
		for _, m := range one.link().messages() {
			sent += len(m.GetPublishers())
		}
		assert.LessOrEqual(t, sent, 6)
		assert.Greater(t, sent, 2)
		full.Store(false)
		time.Sleep(2 * time.Minute)
		require.NoError(t, p.Err())
		require.NoError(t, p.Stored(ctx))
		assert.EqualValues(t, 1, one.link().registered()[p.ID()].GetVersion())
		assert.Zero(t, c.Lost())
	})
}

// A limit that was reached an hour ago, for long, does not make the next refusal wait.
func TestOver_WaitBeginsAgain(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		one := w.session("s1")
		full := limited(one)
		full.Store(true)
		c := w.client(one)
		ctx, cancel := within(3 * time.Hour)
		defer cancel()
		first, err := c.Publish(ctx, "svc", []string{"a"})
		require.NoError(t, err)
		time.Sleep(20 * time.Minute) // it waits for two minutes by then
		full.Store(false)
		time.Sleep(time.Hour)
		require.NoError(t, first.Err())
		full.Store(true)
		next, err := c.Publish(ctx, "svc", []string{"b"})
		require.NoError(t, err)
		require.Error(t, next.Accepted(ctx))
		full.Store(false)
		time.Sleep(30 * time.Second)
		assert.NoError(t, next.Err())
	})
}

// It is sent to the next session at once.
func TestOver_PublicationIsSentToTheNextSession(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		one, two := w.session("s1"), w.session("s2")
		limited(one).Store(true)
		two.set(func() { two.refuse = wire.Errorf(wire.CodeUnavailable, "not yet") })
		c := w.client(one, two)
		ctx, cancel := within(time.Minute)
		defer cancel()
		p, err := c.Publish(ctx, "svc", []string{"a"})
		require.NoError(t, err)
		assert.Equal(t, wire.CodeLimitReached, wire.CodeOf(p.Stored(ctx)))
		two.set(func() { two.refuse = nil })
		w.net.Kill("s1")
		w.eventually("the next session has it", func() bool { return two.link() != nil && p.Err() == nil })
		require.NoError(t, p.Stored(ctx))
	})
}

// A refused update leaves an older version, which can be withdrawn and updated.
func TestOver_RefusedUpdateCanBeWithdrawn(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		one := w.session("s1")
		full := limited(one)
		c := w.client(one)
		ctx, cancel := within(time.Minute)
		defer cancel()
		p, err := c.Publish(ctx, "svc", []string{"a"})
		require.NoError(t, err)
		require.NoError(t, p.Stored(ctx))
		full.Store(true)
		require.NoError(t, p.Update([]string{"a", "b"}))
		require.Equal(t, wire.CodeLimitReached, wire.CodeOf(p.Stored(ctx)))
		full.Store(false)
		require.NoError(t, p.Update([]string{"b"}))
		require.NoError(t, p.Err(), "it is about another version")
		require.NoError(t, p.Stored(ctx))
		full.Store(true)
		require.NoError(t, p.Update([]string{"a", "b"}))
		require.Equal(t, wire.CodeLimitReached, wire.CodeOf(p.Stored(ctx)))
		full.Store(false)
		require.NoError(t, p.Withdraw())
		require.NoError(t, p.Stored(ctx))
		assert.True(t, one.link().registered()[p.ID()].GetWithdrawn())
	})
}

// A newer version that waits when an older one is refused is sent at once.
func TestOver_NewerVersionThatWaitsIsSent(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		one := w.session("s1")
		one.set(func() { one.full = true }) // it answers no registrations
		c := w.client(one)
		ctx, cancel := within(time.Minute)
		defer cancel()
		p, err := c.Publish(ctx, "svc", []string{"a"})
		require.NoError(t, err)
		sent := func() int64 { return one.link().registered()[p.ID()].GetVersion() }
		w.eventually("the first is sent", func() bool { return one.link() != nil && sent() == 1 })
		for v := range int64(2) {
			require.NoError(t, p.Update([]string{"b"}))
			w.eventually("or waits for the window", func() bool { return sent() == min(v+2, 2) })
		}
		one.link().out <- &wirev1.ServerMessage{Refused: []*wirev1.Refusal{{Id: p.ID(), Code: string(wire.CodeLimitReached)}}}
		w.eventually("what waited is sent", func() bool { return sent() == 3 })
		assert.NoError(t, p.Err())
	})
}

// A subscription that is refused because of a limit keeps its list and is asked for
// again with it, and its error ends when it is taken.
func TestOver_SubscriptionIsAskedForAgain(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		one, two := w.session("s1"), w.session("s2")
		full := limited(two)
		full.Store(true)
		c := w.client(one)
		sub := w.subscribed(c, one)
		one.link().push("svc", 7, "a")
		one.link().out <- &wirev1.ServerMessage{Sessions: []string{two.address}}
		w.eventually("it is pushed", func() bool { _, ok := sub.Last(); return ok })
		w.net.Kill("s1")
		w.eventually("it is refused", func() bool { return wire.CodeOf(sub.Err()) == wire.CodeLimitReached })
		last, _ := sub.Last()
		assert.EqualValues(t, 7, last.Version)
		full.Store(false)
		time.Sleep(10 * time.Second)
		require.NoError(t, sub.Err())
		asked := two.link().subscriptions()
		require.Len(t, asked, 2)
		assert.EqualValues(t, 7, asked[1].GetVersion())
		two.link().push("svc", 8, "b")
		w.eventually("it goes on", func() bool { last, _ := sub.Last(); return last.Version == 8 })
	})
}

// Close does not wait for what a session refuses.
func TestOver_CloseEnds(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		one := w.session("s1")
		limited(one).Store(true)
		c := w.configured(client.Config{Sessions: []string{one.address}, MaxWaiting: 1})
		ctx, cancel := within(time.Minute)
		defer cancel()
		for range 3 { // none waits for the one before it
			p, err := c.Publish(ctx, "svc", []string{"a"})
			require.NoError(t, err)
			require.Equal(t, wire.CodeLimitReached, wire.CodeOf(p.Stored(ctx)))
		}
		closing, cancelClosing := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancelClosing()
		assert.NoError(t, c.Close(closing))
	})
}
