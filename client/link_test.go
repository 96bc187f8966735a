package client_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/client"
	"conclave/wire"
	wirev1 "conclave/wire/v1"
)

// These tests are about one link whose session cannot keep up.

// A session accepts nothing for a minute, and answers pings: the client sends it
// a limited number of bytes, stays, pings beside its stream, and sends the rest
// when the session goes on.
func TestLink_FullSessionIsNotLeft(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		one, two := w.session("s1"), w.session("s2")
		c := w.client(one)
		w.eventually("connected", func() bool { return one.link() != nil })
		one.link().out <- &wirev1.ServerMessage{Sessions: []string{one.address, two.address}}
		one.set(func() { one.full = true })
		ctx, cancel := within(2 * time.Minute)
		defer cancel()
		for i := range 10_000 {
			_, err := c.Publish(ctx, fmt.Sprint("svc-", i), []string{strings.Repeat("v", 100)})
			require.NoError(t, err)
		}
		time.Sleep(time.Minute)
		assert.Zero(t, two.attempts())
		assert.Equal(t, 1, one.attempts())
		bytes := 0
		for _, p := range one.link().registered() {
			bytes += len(p.GetDataInfoId()) + len(p.GetValues()[0])
		}
		assert.Less(t, bytes, 64<<10, "of 1.5 MB")
		calls := one.calls()
		require.Greater(t, len(calls), 50)
		assert.EqualValues(t, 1, calls[0].GetConnection())
		assert.Equal(t, one.link().messages()[0].GetHello().GetClient(), calls[0].GetClient())

		one.set(func() { one.full = false })
		accepted := &wirev1.ServerMessage{}
		for id, p := range one.link().registered() {
			accepted.Accepted = append(accepted.Accepted, &wirev1.Ack{Id: id, Version: p.GetVersion()})
		}
		one.link().out <- accepted
		w.eventually("everything is there", func() bool { return len(one.link().registered()) == 10_000 })
		before := len(one.calls())
		time.Sleep(time.Minute)
		assert.LessOrEqual(t, len(one.calls()), before+1, "an idle client pings on its stream")
		assert.Zero(t, two.attempts())
	})
}

// A client whose lock is held, or wanted by thousands of goroutines of its
// application, pings all the same. Not in a bubble, whose time stands still while a
// goroutine waits for a lock.
func TestLink_PingsDoNotWaitForTheLock(t *testing.T) {
	s := startSession()
	defer s.stop()
	s.set(func() { s.full, s.alone = true, nil })
	c, err := client.New(client.Config{Sessions: []string{s.address}})
	require.NoError(t, err)
	c.Start()
	defer func() {
		s.set(func() { s.full = false })
		ctx, cancel := within(0)
		defer cancel()
		_ = c.Close(ctx)
	}()
	_, err = c.Publish(t.Context(), "svc", []string{"a"})
	require.NoError(t, err)
	require.Eventually(t, func() bool { return s.link() != nil && len(s.link().registered()) == 1 }, 30*time.Second, time.Millisecond)
	release := client.Hold(c)
	defer release()
	before := len(s.calls())
	assert.Eventually(t, func() bool { return len(s.calls()) >= before+2 }, 30*time.Second, time.Millisecond)
}

// While the goroutines of a busy process have no turns, no answer can be received:
// the session is not taken for silent. It is once they have turns, if only now and
// then.
func TestLink_OwnLatenessIsNotSilence(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		one, two := w.session("s1"), w.session("s2")
		c, err := client.New(client.Config{Sessions: []string{one.address}, Network: w.net.Host("app")})
		require.NoError(t, err)
		client.Busy(c, func() { time.Sleep(3 * time.Second) })
		c.Start()
		defer func() {
			ctx, cancel := within(time.Second)
			defer cancel()
			_ = c.Close(ctx)
			time.Sleep(3 * time.Second) // until the goroutines had their turns
		}()
		w.eventually("connected", func() bool { return one.link() != nil })
		one.link().out <- &wirev1.ServerMessage{Sessions: []string{one.address, two.address}}
		time.Sleep(time.Second)
		one.set(func() { one.silent, one.full = true, true })
		time.Sleep(6 * time.Second) // twice as long as otherwise
		assert.Zero(t, two.attempts())
		time.Sleep(20 * time.Second)
		assert.NotZero(t, two.attempts())
	})
}

// A session that accepts nothing and does not answer the calls either is left.
func TestLink_SilentFullSessionIsLeft(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		one := w.session("s1")
		c := w.client(one)
		w.eventually("connected", func() bool { return one.link() != nil })
		two := w.session("s2")
		one.link().out <- &wirev1.ServerMessage{Sessions: []string{one.address, two.address}}
		one.set(func() { one.silent = true })
		ctx, cancel := within(time.Minute)
		defer cancel()
		pub, err := c.Publish(ctx, "svc", []string{"a"})
		require.NoError(t, err)
		start := time.Now()
		require.NoError(t, pub.Stored(ctx))
		assert.Len(t, two.link().registered(), 1)
		assert.Less(t, time.Since(start), 4*time.Second)
	})
}

// A refused registration leaves the window.
func TestLink_RefusalsFreeTheWindow(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		one := w.session("s1")
		one.set(func() {
			one.check = func(id string) *wirev1.Refusal {
				return &wirev1.Refusal{Id: id, Code: string(wire.CodeBadRequest), Message: "no"}
			}
		})
		c := w.client(one)
		ctx, cancel := within(time.Minute)
		defer cancel()
		for i := range 10_000 {
			_, err := c.Publish(ctx, fmt.Sprint("svc-", i), []string{strings.Repeat("v", 100)})
			require.NoError(t, err)
		}
		w.eventually("everything was sent", func() bool { return one.link() != nil && len(one.link().registered()) == 10_000 })
	})
}

// Publish waits while too much waits for a session: until its context ends, with
// an error and without an effect, or until a session accepts.
func TestPublish_WaitsWhileTooMuchWaits(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		s := w.session("s1")
		s.set(func() { s.refuse = wire.Errorf(wire.CodeUnavailable, "not yet") })
		c := w.configured(client.Config{Sessions: []string{s.address}, MaxWaiting: 1000})
		ctx, cancel := within(5 * time.Second)
		defer cancel()
		value := []string{strings.Repeat("v", 400)}
		for range 2 { // the second one reaches the limit
			_, err := c.Publish(ctx, "svc", value)
			require.NoError(t, err)
		}
		_, err := c.Publish(ctx, "late", value)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "publish late: 1")
		require.ErrorContains(t, err, "bytes wait for a session to accept them")

		ctx, cancel = within(time.Minute)
		defer cancel()
		time.AfterFunc(20*time.Second, func() { s.set(func() { s.refuse = nil }) })
		pub, err := c.Publish(ctx, "svc", value)
		require.NoError(t, err)
		require.NoError(t, pub.Stored(ctx))
		assert.Len(t, s.link().registered(), 3, "late was not published")

		s.set(func() { s.full = true })
		for range 3 {
			_, err := c.Publish(ctx, "svc", value)
			if err != nil {
				assert.ErrorIs(t, err, client.ErrClosed)
				return
			}
			time.AfterFunc(time.Second, func() { _ = c.Close(ctx) })
		}
		t.Error("Publish did not end with the client")
	})
}
