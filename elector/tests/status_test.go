package elector_test

import (
	"context"
	"iter"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/elector"
	_ "conclave/internal/bubble"
)

func TestChanges_AreQueuedInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := ledBy(7, 0)
		e, start := prepare(t, s, "a")
		changes := e.Changes(t.Context())
		crash := start()
		synctest.Wait()
		s.set(func(t *elector.Term) { t.Leader = conclave.NodeID{} })
		time.Sleep(2 * time.Second)
		require.NoError(t, e.Resign(t.Context()))
		synctest.Wait()
		s.set(func(t *elector.Term) { t.Number, t.Leader, t.Lease = 9, other, 3*time.Second })
		time.Sleep(3 * time.Second)
		crash()

		var got []string
		for status := range changes { // read after everything has happened
			got = append(got, status.String())
		}
		assert.Equal(t, []string{
			"following, term 7 of other@1",
			"leading, term 8 of a@1 (expired)",
			"resigning, term 8 of a@1 (resigned)",
			"following, term 8 of a@1 (resigned)",
			"observing, term 8 of a@1 (resigned)",
			"following, term 9 of other@1",
		}, got)
	})
}

func TestChanges_EndWithContextAfterQueuedOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, start := prepare(t, ledBy(7, 0), "a")
		ctx, cancel := context.WithCancel(t.Context())
		changes := e.Changes(ctx)
		start()
		synctest.Wait()
		cancel()
		count := 0
		for range changes {
			count++
		}
		assert.Equal(t, 1, count, "the queued change comes before the end")
	})
}

// A leader that has died stays in the store's record. An observer, which takes no term
// over, shows when it has been silent for its lease, and when it renews again.
func TestStatus_ShowsThatTheLeaderIsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := ledBy(7, 0)
		e, start := prepare(t, s, "a", func(c *elector.Config) { c.Observer = true })
		began, changes := time.Now(), e.Changes(t.Context())
		crash := start()
		defer crash()
		next, stop := iter.Pull(changes)
		defer stop()
		shown := func() string {
			status, ok := next()
			require.True(t, ok)
			return status.String()
		}
		assert.Equal(t, "observing, term 7 of other@1", shown())
		assert.Equal(t, "observing, term 7 of other@1, silent for its lease", shown())
		assert.LessOrEqual(t, time.Since(began), 4100*time.Millisecond, "at the first read after a lease")
		assert.GreaterOrEqual(t, time.Since(began), 3*time.Second)
		s.set(func(t *elector.Term) { t.Beat++ })
		assert.Equal(t, "observing, term 7 of other@1", shown())
	})
}

// A node that reaches no store says so without a logger, once for each reason, and when
// it is back.
func TestStatus_ShowsWhyTheStoreDoesNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := ledBy(7, 0)
		s.term.Address = "10.0.0.2:80"
		e, start := prepare(t, s, "a")
		changes := e.Changes(t.Context())
		crash := start()
		synctest.Wait()
		since := e.Status().Since
		s.setBroken(true)
		time.Sleep(2 * time.Second)
		status := e.Status()
		assert.Equal(t, elector.Following, status.State)
		assert.Equal(t, since, status.Since)
		assert.ErrorIs(t, status.Err, errBroken)
		assert.Greater(t, status.Failures, 1)
		assert.True(t, status.Next.After(time.Now()), "the next try")
		assert.True(t, status.Next.Before(time.Now().Add(time.Second)))
		s.set(func(t *elector.Term) { t.Beat++ })
		s.setBroken(false)
		time.Sleep(2 * time.Second)
		assert.NoError(t, e.Status().Err)
		assert.Zero(t, e.Status().Failures)
		crash()
		var got []string
		for status := range changes {
			got = append(got, status.String())
		}
		assert.Equal(t, []string{
			"following, term 7 of other@1 at 10.0.0.2:80",
			"following, term 7 of other@1 at 10.0.0.2:80; 1 rounds without an answer: play: broken on purpose",
			"following, term 7 of other@1 at 10.0.0.2:80",
		}, got)
	})
}

func TestLive_TellsWhatARestartMends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		linger := make(chan struct{})
		e, start := prepare(t, s, "a", func(c *elector.Config) {
			c.HandOver = time.Minute
			c.Lead = func(ctx context.Context, _ elector.Term) error {
				<-ctx.Done()
				<-linger
				return nil
			}
		})
		require.NoError(t, e.Live(), "the program starts")
		crash := start()
		time.Sleep(time.Minute)
		require.NoError(t, e.Live())
		resigned := make(chan error, 1)
		go func() { resigned <- e.Resign(t.Context()) }()
		time.Sleep(59 * time.Second)
		require.NoError(t, e.Live(), "HandOver is a minute")
		time.Sleep(2 * time.Second)
		require.ErrorContains(t, e.Live(), "term 1: Lead has not returned for 1m1s", "no node leads")
		s.setBroken(true)
		time.Sleep(16 * time.Second)
		close(linger)
		require.Error(t, <-resigned)
		time.Sleep(time.Hour)
		require.NoError(t, e.Live(), "a restart does not mend the store")

		block := make(chan struct{})
		s.mu.Lock()
		s.block = block
		s.mu.Unlock()
		time.Sleep(20 * time.Second)
		require.ErrorContains(t, e.Live(), "a round has been due for 1")
		close(block)
		crash()
		require.ErrorIs(t, e.Live(), elector.ErrStopped)
	})
	synctest.Test(t, func(t *testing.T) {
		e, _ := run(t, &store{block: make(chan struct{})}, "a")
		time.Sleep(14 * time.Second)
		require.NoError(t, e.Live())
		time.Sleep(2 * time.Second)
		require.ErrorContains(t, e.Live(), "a round has been due for 16s", "the first one")
	})
	synctest.Test(t, func(t *testing.T) {
		s := ledBy(7, 0)
		e, _ := run(t, s, "a", func(c *elector.Config) { c.SafetyRead = time.Hour })
		for range 100 { // pushed beats: nothing is read
			time.Sleep(time.Second)
			s.set(func(term *elector.Term) { term.Beat++; e.Observe(*term) })
		}
		s.hang(nil)
		require.NoError(t, e.JoinElection(t.Context())) // a round at once
		synctest.Wait()
		require.NoError(t, e.Live(), "it has just begun")
		assert.Zero(t, time.Since(e.Status().Next))
	})
}

// A history that refuses the record is said now and then, not each beat.
func TestRecord_FailureIsLoggedAtABoundedRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log lockedBuffer
		run(t, &store{}, "a", func(c *elector.Config) {
			c.Strategy = unrecorded{strategy{&store{}}, new([]time.Time)}
			c.Logger = slog.New(slog.NewTextHandler(&log, nil))
		})
		time.Sleep(100 * time.Second)
		assert.Equal(t, 4, strings.Count(log.String(), "election not recorded yet"))
	})
}
