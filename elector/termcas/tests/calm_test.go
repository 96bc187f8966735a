package termcas_test

import (
	"flag"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/elector"
	"conclave/elector/electortest"
	"conclave/elector/termcas"
	_ "conclave/internal/bubble"
	"conclave/internal/devdb"
	"conclave/internal/mysqltest"
	"conclave/testbed/simulated/simnet"
)

// calmDays makes TestCalm_NoElectionAcrossCalendarBoundaries simulate that many days in a
// row. A day takes more than a minute with a lease of 3 s, a tenth of that with 30 s:
//
//	go test ./elector/termcas/tests -run TestCalm_NoElectionAcrossCalendarBoundaries -calm-days 30 -calm-lease 30s -timeout 1h -v
var (
	calmDays  = flag.Int("calm-days", 0, "days that TestCalm_NoElectionAcrossCalendarBoundaries simulates from 2027-03-01; 0: some minutes around each calendar boundary")
	calmLease = flag.Duration("calm-lease", 3*time.Second, "the lease of its electors")
)

// With three healthy electors there is one election, the first, while minutes, hours,
// midnights, the changes to summer time and back, a leap day, a year's end and the end of
// TIMESTAMP pass. (Another project's leader was deposed 36 times in 100 minutes, at the
// end of a minute: it subtracted times of day as numbers.)
func TestCalm_NoElectionAcrossCalendarBoundaries(t *testing.T) {
	var spans [][2]time.Time
	for _, boundary := range []time.Time{
		time.Date(2027, 3, 28, 1, 0, 0, 0, time.UTC),   // summer time in Europe begins
		time.Date(2027, 10, 31, 1, 0, 0, 0, time.UTC),  // and ends
		time.Date(2027, 3, 14, 10, 0, 0, 0, time.UTC),  // likewise at Los Angeles
		time.Date(2027, 11, 7, 9, 0, 0, 0, time.UTC),   //
		time.Date(2027, 5, 31, 16, 0, 0, 0, time.UTC),  // a month's end at Shanghai
		time.Date(2027, 12, 31, 23, 0, 0, 0, time.UTC), // an hour before
		time.Date(2028, 1, 1, 0, 0, 0, 0, time.UTC),    // a year
		time.Date(2028, 2, 29, 0, 0, 0, 0, time.UTC),   // a leap day begins
		time.Date(2028, 3, 1, 0, 0, 0, 0, time.UTC),    // and ends
		time.Unix(1<<31, 0).UTC(),                      // 2038
		time.Unix(1<<32, 0).UTC(),                      // 2106: 32 bits without a sign
	} {
		spans = append(spans, [2]time.Time{boundary.Add(-90 * time.Second), boundary.Add(90 * time.Second)})
	}
	if *calmDays > 0 {
		began := time.Date(2027, 3, 1, 0, 0, 0, 0, time.UTC)
		spans = [][2]time.Time{{began, began.AddDate(0, 0, *calmDays)}}
	}
	synctest.Test(t, func(t *testing.T) {
		var ahead atomic.Int64 // of the bubble's clock: the wall clock of the database and all nodes
		now := func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
		network := simnet.New(1)
		listener, err := network.Host("db").Listen(t.Context(), "tcp", "db:3306")
		require.NoError(t, err)
		dsn := mysqltest.ServeEmbedded(t, devdb.Config{Listener: listener, Now: now})
		b := newBench(t, dsn, network.Host("nodes").DialContext, termcas.Witness)
		b.Lease, b.Bubble, b.Quiet, b.Push = *calmLease, true, true, true
		c := electortest.NewCluster(t, b.World, 3, func(cfg *elector.Config) { cfg.Now = now })
		defer c.Stop()
		leader, term := c.Leader()
		passed := time.Duration(0)
		for _, span := range spans {
			ahead.Store(int64(time.Until(span[0])))
			c.Until("a renewal at that time", func() bool { return b.renewed(t).After(span[0]) })
			time.Sleep(span[1].Sub(now()))
			passed += span[1].Sub(span[0])
			assert.WithinDuration(t, span[1], b.renewed(t), 2*b.Lease/3, "renewed, by the database's clock")
			require.Len(t, c.Ledger(), 1, "a leader change by %v", span[1])
		}
		still, leading := leader.Leading()
		assert.True(t, leading)
		assert.Equal(t, term.Number, still.Number)
		for _, n := range c.Nodes() {
			assert.Zero(t, n.Stats().Failed, n.ID)
		}
		t.Logf("%v of simulated time, %d statements, %d elections", passed, b.statements(), len(c.Ledger()))
	})
}

// renewed returns when the row was last renewed, by the database's clock.
func (b *bench) renewed(t *testing.T) (at time.Time) {
	t.Helper()
	require.NoError(t, b.db.QueryRow(t.Context(), "SELECT gmt_modified FROM distribute_lock WHERE data_center = ? AND lock_name = ?",
		[]any{b.lock.DataCenter, b.lock.Name}, &at))
	return at
}
