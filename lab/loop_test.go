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

// notifiedHourly is one that is also notified of resignations.
type notifiedHourly struct{ hourly }

func (*notifiedHourly) resignationDelay() time.Duration { return 30 * time.Millisecond }

// A resignation shortens the sleep of a notified peer, and of no other.
func TestLoopCandidate_ResignationWakesNotifiedPeer(t *testing.T) {
	run := func(t *testing.T, p peer) {
		c := (&environment{Spec: Spec{Times: Times{Check: time.Millisecond}}}).loop(p)
		ended := make(chan error, 1)
		go func() { ended <- c.run(t.Context()) }()
		time.Sleep(time.Minute)
		c.wake()
		time.Sleep(time.Minute)
		assert.NoError(t, c.stop(t.Context()))
		assert.NoError(t, <-ended)
	}
	synctest.Test(t, func(t *testing.T) {
		n := &notifiedHourly{hourly{began: time.Now()}}
		run(t, n)
		assert.Len(t, n.turns, 2)
		assert.Equal(t, time.Minute+30*time.Millisecond, n.turns[1])
	})
	synctest.Test(t, func(t *testing.T) {
		h := &hourly{began: time.Now()}
		run(t, h)
		assert.Len(t, h.turns, 1, "its hour has not passed")
	})
}
