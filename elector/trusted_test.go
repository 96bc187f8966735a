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
