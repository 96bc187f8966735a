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

func TestLeading_EndsOnTimeWhenStoreHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		began := time.Now()
		ended := make(chan time.Duration, 1)
		e, _ := run(t, s, "a", func(c *elector.Config) {
			c.Lead = func(ctx context.Context, _ elector.Term) error {
				<-ctx.Done()
				ended <- time.Since(began)
				return nil
			}
		})
		synctest.Wait()
		s.mu.Lock()
		s.block = make(chan struct{}) // from now on no round is answered
		s.mu.Unlock()
		time.Sleep(2900 * time.Millisecond)
		_, leading := e.Leading()
		assert.True(t, leading)
		assert.Equal(t, 3*time.Second-60*time.Millisecond, <-ended, "lease less margin after the win was sent")
		_, leading = e.Leading()
		assert.False(t, leading)
		assert.LessOrEqual(t, e.Remaining(), time.Duration(0))
	})
}

func TestRun_CancelledContextResignsNothingAndJoinsLead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		returned := false
		e, crash := run(t, s, "a", func(c *elector.Config) {
			c.Lead = func(ctx context.Context, _ elector.Term) error {
				<-ctx.Done()
				time.Sleep(time.Second) // slow to stop
				returned = true
				return nil
			}
			c.WakePeers = func(context.Context, elector.Term) { t.Error("WakePeers was called") }
		})
		synctest.Wait()
		assert.ErrorIs(t, crash(), context.Canceled)
		assert.True(t, returned)
		assert.Equal(t, "a", s.term.Leader.Name, "nothing was resigned")
		_, leading := e.Leading()
		assert.False(t, leading)
		assert.ErrorIs(t, e.Resign(t.Context()), elector.ErrStopped)
		assert.Error(t, e.Run(t.Context()), "Run may be called once")
	})
}

// Lead's work must have ended before another node leads, so its deadline is known also
// while Lead winds down after a resignation and the term is still renewed.
func TestTrustedUntil_IsSetUntilLeadHasReturned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		linger := make(chan struct{})
		e, _ := run(t, s, "a", func(c *elector.Config) {
			c.Lead = func(ctx context.Context, _ elector.Term) error {
				<-ctx.Done()
				<-linger
				return nil
			}
		})
		began := time.Now()
		synctest.Wait()
		trust := 3*time.Second - 60*time.Millisecond
		assert.Equal(t, began.Add(trust), e.TrustedUntil())
		time.Sleep(1500 * time.Millisecond)
		assert.True(t, e.TrustedUntil().After(began.Add(trust)), "renewed")

		resigned := make(chan error, 1)
		go func() { resigned <- e.Resign(t.Context()) }()
		time.Sleep(10 * time.Second)
		_, leading := e.Leading()
		assert.False(t, leading)
		assert.Greater(t, time.Until(e.TrustedUntil()), time.Second, "the term is still renewed")
		s.set(func(t *elector.Term) { t.Number, t.Leader = 9, other })
		time.Sleep(5 * time.Second)
		assert.Less(t, time.Until(e.TrustedUntil()), time.Duration(0), "once deposed, trust ends with the last renewal")
		close(linger)
		require.Error(t, <-resigned, "the term was lost before it could be handed over")
		assert.Zero(t, e.TrustedUntil())
	})
}
