package session_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/internal/contain"
	"conclave/internal/trace"
	"conclave/session"
	wirev1 "conclave/wire/v1"
)

// A panic while a client's message is handled ends the connection as if it had broken:
// no part of the session knows it any more, its registrations stay for the client
// lease, and no lock is held.
func TestReceive_PanicEndsTheConnection(t *testing.T) {
	bubble(t, 0, 0, func(t *testing.T, c *cluster) {
		var armed atomic.Bool
		c.startLimited(func(config *session.Config) {
			config.Trace = func(claim trace.Claim) { // with the registry's lock held
				if claim.Kind == trace.Pushed && armed.CompareAndSwap(true, false) {
					panic("a defect")
				}
			}
		})
		watcher := c.watch(c.client("watcher"), "svc")
		r := c.raw("poison", "session-1").hello("poison")
		defer r.end()
		r.answer(&wirev1.Publisher{Id: "a", DataInfoId: svc, Version: 1, Values: []string{"a"}})
		c.eventually("it is seen", watcher.shows("a"))

		before := contain.Count()
		armed.Store(true)
		r.send(&wirev1.ClientMessage{Subscribe: []*wirev1.Subscription{{Id: "s", DataInfoId: svc}}})
		var err error
		for err == nil {
			_, err = r.stream.Receive()
		}
		require.False(t, armed.Load())
		assert.Equal(t, before+1, contain.Count())
		assert.Equal(t, []string{"watcher"}, c.names("session-1"))
		registrations := func() int { return len(c.list(c.sessions["session-1"].server.Address(), "/v1/publishers")) }
		time.Sleep(session.DefaultConfig().ClientLease - time.Second)
		assert.Equal(t, 1, registrations(), "its client may come back")
		time.Sleep(2 * time.Second)
		assert.Zero(t, registrations())
		c.published(c.client("writer"), "svc", "b")
		c.eventually("others are served", watcher.shows("b"))
	})
}
