package client_test

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/client"
	wirev1 "conclave/wire/v1"
)

// lingering starts a client with a linger. leave ends it without a good-bye,
// and returns when Run has.
func (w *world) lingering(sessions ...*fakeSession) (c *client.Client, leave func()) {
	config := client.Config{Linger: time.Hour, Network: w.net.Host("app"), Rand: rand.New(rand.NewPCG(1, 2))}
	for _, s := range sessions {
		config.Sessions = append(config.Sessions, s.address)
	}
	c, err := client.New(config)
	require.NoError(w.t, err)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		assert.ErrorIs(w.t, c.Run(ctx), context.Canceled)
	}()
	leave = func() { stop(); <-done }
	w.t.Cleanup(leave)
	return c, leave
}

// ended waits for the end of a link, and reports whether the client ended it in
// order.
func (w *world) ended(l *fakeLink) (inOrder bool) {
	w.eventually("the session sees the end", func() bool { ended, _ := l.end(); return ended })
	_, inOrder = l.end()
	return inOrder
}

// A client that moves to another session breaks its link off. It ends its
// request in order, as its last message, only when it leaves for good.
func TestLinger_RequestEndsInOrderOnlyWhenLeaving(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		one, two := w.session("session-1"), w.session("session-2")
		c, leave := w.lingering(one)
		p, err := c.Publish(t.Context(), "svc", []string{"a"})
		require.NoError(t, err)
		require.NoError(t, p.Stored(t.Context()))

		// Asked to move.
		old := one.link()
		old.out <- &wirev1.ServerMessage{Sessions: []string{two.address}, Move: &wirev1.Move{Reason: "drain"}}
		w.eventually("it moved", func() bool { return one.link() == nil && two.link() != nil })
		assert.False(t, w.ended(old), "moved")

		// The session is silent.
		silent := two.link()
		two.set(func() { two.silent = true })
		w.eventually("it went back", func() bool { return one.link() != nil })
		assert.False(t, w.ended(silent), "silent")

		// It leaves.
		at := one.link()
		w.eventually("all is stored there", func() bool { return len(at.registered()) == 1 })
		time.Sleep(time.Millisecond)
		leave()
		assert.True(t, w.ended(at), "left")
	})
}

// A client that leaves while something is not known to be stored breaks its
// link off: this session may have an older version than data has from another.
func TestLinger_BreaksOffWhileNotStored(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		s := w.session("session-1")
		s.accept = true
		c, leave := w.lingering(s)
		p, err := c.Publish(t.Context(), "svc", []string{"a"})
		require.NoError(t, err)
		require.NoError(t, p.Accepted(t.Context()))
		l := s.link()
		leave()
		assert.False(t, w.ended(l))
	})
}
