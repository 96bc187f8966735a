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
		for change := range changes { // read after everything has happened
			line := change.Term.String()
			if change.Leading {
				line += ", leading"
			}
			got = append(got, line+" "+change.Why)
		}
		assert.Equal(t, []string{
			"term 7 of other@1 ",
			"term 8 of a@1, leading ",
			"term 8 of a@1 resigned",
			"term 8, no leader ",
			"term 9 of other@1 ",
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
