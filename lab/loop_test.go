package lab

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

// waiting is a peer that sleeps for an hour between two turns.
type waiting struct {
	began time.Time
	turns []time.Duration // when each began
}

func (w *waiting) turn(context.Context) time.Duration {
	w.turns = append(w.turns, time.Since(w.began))
	return time.Hour
}

func (w *waiting) release(context.Context) {}

// listening is one that hears of resignations, too.
type listening struct{ waiting }

func (*listening) heard() time.Duration { return 30 * time.Millisecond }

// A resignation cuts the sleep of who listens short, and of nobody else.
func TestAResignationWakesWhoListens(t *testing.T) {
	play := func(t *testing.T, p peer) {
		c := (&stand{Seat: Seat{Times: Times{Check: time.Millisecond}}}).loop(p)
		ended := make(chan error, 1)
		go func() { ended <- c.Run(t.Context()) }()
		time.Sleep(time.Minute)
		c.Wake()
		time.Sleep(time.Minute)
		assert.NoError(t, c.Stop(t.Context()))
		assert.NoError(t, <-ended)
	}
	synctest.Test(t, func(t *testing.T) {
		l := &listening{waiting{began: time.Now()}}
		play(t, l)
		assert.Len(t, l.turns, 2)
		assert.Equal(t, time.Minute+30*time.Millisecond, l.turns[1])
	})
	synctest.Test(t, func(t *testing.T) {
		w := &waiting{began: time.Now()}
		play(t, w)
		assert.Len(t, w.turns, 1, "its hour is not over")
	})
}
