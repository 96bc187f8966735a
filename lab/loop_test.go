package lab

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	_ "conclave/internal/bubble"
)

// hourly is a peer that sleeps for an hour between two turns.
type hourly struct {
	began time.Time
	turns []time.Duration // when each began
}

func (h *hourly) turn(context.Context) time.Duration {
	h.turns = append(h.turns, time.Since(h.began))
	return time.Hour
}

func (h *hourly) release(context.Context) {}

// A resignation shortens the sleep of a notified peer, and of no other.
func TestLoopCandidate_ResignationWakesNotifiedPeer(t *testing.T) {
	run := func(t *testing.T, p peer, notified time.Duration) {
		c := (&environment{Spec: Spec{Times: Times{Check: time.Millisecond}}}).loop(p, notified)
		ended := make(chan error, 1)
		go func() { ended <- c.run(t.Context()) }()
		time.Sleep(time.Minute)
		c.wake()
		time.Sleep(time.Minute)
		assert.NoError(t, c.stop(t.Context()))
		assert.NoError(t, <-ended)
	}
	synctest.Test(t, func(t *testing.T) {
		n := &hourly{began: time.Now()}
		run(t, n, 30*time.Millisecond)
		assert.Len(t, n.turns, 2)
		assert.InDelta(t, time.Minute, n.turns[1], float64(30*time.Millisecond))
	})
	synctest.Test(t, func(t *testing.T) {
		h := &hourly{began: time.Now()}
		run(t, h, 0)
		assert.Len(t, h.turns, 1, "its hour has not passed")
	})
}
