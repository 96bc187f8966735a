package elector_test

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"conclave/elector"
)

func TestFollower_PollsEachBeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := ledBy(7, 0)
		e, _ := run(t, s, "a")
		for range 20 {
			time.Sleep(time.Second)
			s.set(func(t *elector.Term) { t.Beat++ })
		}
		assert.InDelta(t, 20, s.played(), 2)
		assert.Equal(t, other, e.Current().Leader)
		assert.Positive(t, e.Remaining())
	})
}

// A longer Poll costs less, but a follower that learns late of the last beat observes it
// for longer.
func TestFollower_PollsAtConfiguredInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := ledBy(7, 0)
		e, _ := run(t, s, "a", func(c *elector.Config) { c.Poll = 3 * time.Second })
		for range 60 {
			time.Sleep(time.Second)
			s.set(func(t *elector.Term) { t.Beat++ })
		}
		assert.InDelta(t, 60/3, s.played(), 2)
		began := time.Now() // the last beat
		for e.Current().Leader == other {
			time.Sleep(10 * time.Millisecond)
		}
		assert.Greater(t, time.Since(began), 3*time.Second)
		assert.Less(t, time.Since(began), 2*3*time.Second+100*time.Millisecond)
	})
}

func TestFollower_DoesNotPollWhileBeatsArePushed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := ledBy(7, 0)
		e, _ := run(t, s, "a")
		synctest.Wait()
		push := func() {
			s.set(func(term *elector.Term) { term.Beat++; e.Observe(*term) })
		}
		for range 60 {
			time.Sleep(time.Second)
			push()
		}
		assert.InDelta(t, 60/10, s.played(), 1, "one SafetyRead each 10 s")
		before := s.played()

		// The pushes stop: after two missed beats the follower polls, after a lease it leads.
		began := time.Now()
		for e.Current().Leader == other {
			time.Sleep(10 * time.Millisecond)
		}
		assert.InDelta(t, 3.0, time.Since(began).Seconds(), 0.3)
		assert.GreaterOrEqual(t, s.played()-before, 2)
	})
}

func TestLeading_StoreErrorsDeposeNoLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		e, _ := run(t, s, "a")
		synctest.Wait()
		s.setBroken(true)
		time.Sleep(2 * time.Second)
		_, leading := e.Leading()
		assert.True(t, leading, "errors depose no leader")
		s.setBroken(false)
		time.Sleep(3 * time.Second)
		term, leading := e.Leading()
		assert.True(t, leading)
		assert.Equal(t, uint64(1), term.Number)
		assert.NotZero(t, e.Stats().Failed)
	})
}

// An operator sees why rounds fail now, not only why they failed first.
func TestRound_ChangedReasonIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := ledBy(7, 0)
		var log lockedBuffer
		run(t, s, "a", func(c *elector.Config) {
			c.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))
		})
		failing := func(last time.Duration, reasons ...string) {
			t.Helper()
			for began, i := time.Now(), 0; time.Since(began) < last; i++ {
				s.mu.Lock()
				s.broken, s.reason = true, fmt.Errorf("from port %d: %s", 40000+i, reasons[i%len(reasons)])
				s.mu.Unlock()
				time.Sleep(time.Second)
			}
		}
		failing(29*time.Second, "no answer")
		assert.Equal(t, 1, strings.Count(log.String(), "no answer"))
		failing(5*time.Second, "host is blocked")
		assert.Equal(t, 1, strings.Count(log.String(), "host is blocked"), "a new reason")
		failing(60*time.Second, "host is blocked", "no answer")
		assert.InDelta(t, 3, strings.Count(log.String(), "no answer"), 1, "each again after ten leases")
		assert.InDelta(t, 3, strings.Count(log.String(), "host is blocked"), 1)
	})
}

// lockedBuffer collects log lines.
type lockedBuffer struct {
	mu  sync.Mutex
	all strings.Builder
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.all.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.all.String()
}
