package lease_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"

	"conclave/lease"
)

func TestLateness_IsTakenOnce(t *testing.T) {
	l := lease.NewLateness(at(0), time.Second)
	assert.Zero(t, l.Tick(at(time.Second), time.Second))
	assert.Zero(t, l.Take(at(1900*time.Millisecond)))
	assert.Zero(t, l.Tick(at(2*time.Second), time.Second))
	assert.Equal(t, 57*time.Second, l.Take(at(time.Minute)), "suspended, and the timer has not fired yet")
	assert.Zero(t, l.Take(at(time.Minute)))
	assert.Equal(t, time.Millisecond, l.Tick(at(time.Minute+time.Millisecond), time.Second))
	assert.Zero(t, l.Tick(at(time.Minute+time.Second), time.Second), "early")
	assert.Zero(t, l.Take(at(time.Minute+2*time.Second)))
	assert.Zero(t, l.Take(at(time.Minute)), "an older time")
}

// However late the ticks are, a holder that stays silent loses its lease after so
// many ticks as fit into it, and never before the owner has run for that time.
func TestLateness_DelaysAreBoundedByTicks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const every, d = 500 * time.Millisecond, 3 * time.Second
		now := start
		table, late := lease.New[string](), lease.NewLateness(now, every)
		table.Renew("a", now, d)
		ticks, ran := 0, time.Duration(0)
		for held := true; held; _, held = table.NextExpiry() {
			wait := time.Duration(rapid.Int64Range(1, int64(5*every)).Draw(t, "wait"))
			now = now.Add(wait)
			ran += min(wait, every)
			if rapid.Bool().Draw(t, "judged first") {
				table.Delay(late.Take(now))
				table.Expire(now)
			}
			table.Delay(late.Tick(now, every))
			table.Expire(now)
			if wait >= every {
				ticks++
			}
			if ticks > int(d/every) {
				t.Fatalf("it has its lease after %d ticks", ticks)
			}
		}
		if ran < d {
			t.Fatalf("the lease of %s has ended when its owner had run for %s", d, ran)
		}
	})
}

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
