package elector_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/elector"
)

func TestState_FollowsTheDiagram(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		linger := make(chan struct{})
		e, start := prepare(t, s, "a", func(c *elector.Config) {
			c.Observer = true
			c.Lead = func(ctx context.Context, _ elector.Term) error {
				<-ctx.Done()
				<-linger
				return nil
			}
		})
		start()
		state := func() elector.State {
			synctest.Wait()
			return e.Status().State
		}
		assert.Equal(t, elector.Observing, state())
		require.NoError(t, e.JoinElection(t.Context()))
		assert.Equal(t, elector.Leading, state(), "the free lock is won at once")

		s.set(func(t *elector.Term) { t.Number, t.Leader, t.Lease = 2, other, 3*time.Second })
		e.Wake()
		assert.Equal(t, elector.WindingDown, state(), "deposed, and Lead has not returned")
		linger <- struct{}{}
		assert.Equal(t, elector.Following, state())

		s.set(func(t *elector.Term) { t.Leader = conclave.NodeID{} })
		e.Wake()
		require.Equal(t, elector.Leading, state())
		resigned := make(chan error, 1)
		go func() { resigned <- e.Resign(t.Context()) }()
		assert.Equal(t, elector.Resigning, state())
		time.Sleep(10 * time.Second)
		assert.Equal(t, elector.Resigning, state(), "renewed until Lead has returned")
		close(linger)
		require.NoError(t, <-resigned)
		assert.Equal(t, elector.Observing, state(), "abstains")
		time.Sleep(7 * time.Second)
		assert.Equal(t, elector.Leading, state(), "two leases later it competes again")
	})
}
