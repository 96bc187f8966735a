package termcas_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"conclave/elector/electortest"
	"conclave/elector/termcas"
)

// BenchmarkResign measures a planned hand-over until the successor's first act, with
// three nodes in one process on a real socket.
func BenchmarkResign(b *testing.B) {
	w := onServer(b, anyServer(b), termcas.Witness)
	w.Quiet = true
	c := electortest.NewCluster(b, w.World, 3)
	defer c.Stop()
	leader, term := c.Leader()
	var took []time.Duration
	for range b.N {
		waitForWaiters(c, leader)
		began := time.Now()
		require.NoError(b, leader.Resign(b.Context()))
		leader, term = c.LeaderAfter(term.Number)
		ledger := c.Ledger()
		took = append(took, ledger[len(ledger)-1].Began.Sub(began))
	}
	report(b, took)
}
