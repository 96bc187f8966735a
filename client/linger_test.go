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

// lingering runs a client that announced that it will leave, until leave; it
// returns when Run has.
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

// over waits for the end of a link, and says whether it was the client's last word.
func (w *world) over(l *fakeLink) (said bool) {
	w.eventually("the session sees the end", func() bool { over, _ := l.lastWord(); return over })
	_, said = l.lastWord()
	return said
}

// A client that goes elsewhere breaks its link off; the end of its request, which
// a session takes for its last word, is kept for the time when it leaves.
func TestLastWordIsSaidOnlyWhenLeaving(t *testing.T) {
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
		assert.False(t, w.over(old), "moved")

		// The session is silent.
		silent := two.link()
		two.set(func() { two.mute = true })
		w.eventually("it went back", func() bool { return one.link() != nil })
		assert.False(t, w.over(silent), "silent")

		// It leaves.
		at := one.link()
		w.eventually("all is stored there", func() bool { return len(at.registered()) == 1 })
		time.Sleep(time.Millisecond)
		leave()
		assert.True(t, w.over(at), "left")
	})
}

// A client that leaves while something is not known to be stored says no last
// word: this session may have an older version than data had of another.
func TestNoLastWordWhileSomethingIsOwed(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		s := w.session("session-1")
		s.accept = true
		c, leave := w.lingering(s)
		p, err := c.Publish(t.Context(), "svc", []string{"a"})
		require.NoError(t, err)
		require.NoError(t, p.Accepted(t.Context()))
		l := s.link()
		leave()
		assert.False(t, w.over(l))
	})
}
