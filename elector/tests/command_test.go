package elector_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/elector"
)

func TestResign_HandsOverWhenLeadHasReturned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		woken := make(chan elector.Term, 1)
		left := false
		e, _ := run(t, s, "a", func(c *elector.Config) {
			c.Trace = func(event elector.Event) { // the elector's mutex is held
				assert.False(t, left && event.Kind == elector.EventExtended, "a renewal after the end makes no leader")
				left = left || event.Kind == elector.EventLeft
			}
			c.Lead = func(ctx context.Context, _ elector.Term) error {
				<-ctx.Done()
				time.Sleep(5 * time.Second) // longer than a lease: the term is renewed meanwhile
				return nil
			}
			c.WakePeers = func(_ context.Context, term elector.Term) { woken <- term }
		})
		synctest.Wait()
		began := time.Now()
		go func() {
			time.Sleep(time.Second)
			_, leading := e.Leading()
			assert.False(t, leading, "the node may not act from the resignation on")
			s.mu.Lock()
			defer s.mu.Unlock()
			assert.Equal(t, "a", s.term.Leader.Name, "the term is held until Lead has returned")
		}()
		require.NoError(t, e.Resign(t.Context()))
		assert.Equal(t, 5*time.Second, time.Since(began))
		assert.Equal(t, uint64(1), (<-woken).Number)
		assert.Greater(t, s.term.Beat, uint64(4), "it was renewed meanwhile")
	})
}

func TestQuit_LeaderHandsOverWithoutRenewingFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		var returned int
		e, _ := run(t, s, "a", func(c *elector.Config) {
			c.Lead = func(ctx context.Context, _ elector.Term) error {
				<-ctx.Done()
				time.Sleep(10 * time.Millisecond)
				returned = s.played()
				return nil
			}
		})
		time.Sleep(500 * time.Millisecond)
		before := s.played()
		require.NoError(t, e.Quit(t.Context()))
		assert.Equal(t, before, returned, "no round before the hand-over: the others would wait for its statement")
		synctest.Wait()
		assert.Equal(t, before, s.played(), "nor one while the others elect")
		time.Sleep(50 * time.Millisecond)
		assert.Greater(t, s.played(), before, "a round as an observer after that")
	})
}
