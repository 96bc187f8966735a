package lease_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"conclave/lease"
)

func TestSilence_EndsExactlyAtItsLimit(t *testing.T) {
	const limit, round = 2250 * time.Millisecond, 500 * time.Millisecond
	now := at(0)
	s := lease.NewSilence(now, time.Second, round)
	now = now.Add(s.First())
	next, over := s.Round(now)
	assert.False(t, over)
	s.Received(now.Add(100*time.Millisecond), limit)
	for !over {
		now = now.Add(next)
		next, over = s.Round(now)
	}
	assert.Equal(t, at(600*time.Millisecond+limit), now)
}

// A receiver that was suspended for an hour has been sent messages that it has not
// read: the peer has the rest of its time from then on, and no more.
func TestSilence_OwnLatenessDoesNotCount(t *testing.T) {
	const limit, round = 2 * time.Second, 500 * time.Millisecond
	s := lease.NewSilence(at(0), limit, round)
	next, over := s.Round(at(round))
	assert.False(t, over)
	now := at(round + next + time.Hour)
	for rounds := range 3 {
		next, over = s.Round(now)
		assert.Equal(t, rounds == 2, over, "round %d", rounds)
		now = now.Add(next)
	}
}
