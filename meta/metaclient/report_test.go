package metaclient_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/meta/metaclient"
	wirev1 "conclave/wire/v1"
)

// slowReport is a Report that needs a lock. Its load is the number of the call.
type slowReport struct {
	free  chan struct{} // holds an element while the lock is free
	begun atomic.Uint32
}

func newSlowReport() *slowReport {
	r := &slowReport{free: make(chan struct{}, 1)}
	r.free <- struct{}{}
	return r
}

func (r *slowReport) report() ([]*wirev1.SlotReport, uint32, bool, bool) {
	n := r.begun.Add(1)
	<-r.free
	defer func() { r.free <- struct{}{} }()
	return []*wirev1.SlotReport{{Slot: 3}}, n, true, true
}

func (r *slowReport) use(c *metaclient.Config) { c.Report = r.report }

func TestRun_BeatsDoNotWaitForTheReport(t *testing.T) {
	inBubble(t, func(t *testing.T, b bubble) {
		leader := b.meta("meta-1")
		leader.lead(1)
		r := newSlowReport()
		n := b.node("data-1", []string{leader.address}, r.use)
		require.NoError(t, n.WaitRegistered(t.Context()))
		time.Sleep(100 * time.Millisecond)
		<-r.free
		calm := leader.beatCount()
		time.Sleep(2500 * time.Millisecond)
		synctest.Wait()
		assert.InDelta(t, calm+2, leader.beatCount(), 1)
		last := leader.beat(-1)
		assert.False(t, last.GetAllReports())
		assert.Empty(t, last.GetReports())

		calm = leader.beatCount()
		r.free <- struct{}{}
		synctest.Wait()
		require.Greater(t, leader.beatCount(), calm, "at once")
		last = leader.beat(-1)
		assert.True(t, last.GetAllReports())
		assert.Len(t, last.GetReports(), 1)
		assert.Positive(t, last.GetLoad())
		assert.True(t, last.GetReady() && last.GetMember().GetDraining())
	})
}

func TestRun_NodeThatMakesNoReportForANodeLeaseIsSilent(t *testing.T) {
	inBubble(t, func(t *testing.T, b bubble) {
		leader := b.meta("meta-1")
		leader.lead(1)
		r := newSlowReport()
		n := b.node("data-1", []string{leader.address}, r.use)
		require.NoError(t, n.WaitRegistered(t.Context()))
		time.Sleep(100 * time.Millisecond)
		<-r.free // a handler holds the lock for ever
		time.Sleep(n.NodeLease() + 1200*time.Millisecond)
		synctest.Wait()
		before := leader.beatCount()
		time.Sleep(10 * time.Second)
		assert.Equal(t, before, leader.beatCount(), "its lease must end")

		// The leader ends the stream, and a new one does not register the node.
		leader.set(func() { leader.leads = 0 })
		time.Sleep(time.Second)
		leader.lead(2)
		time.Sleep(10 * time.Second)
		assert.Equal(t, before, leader.beatCount())

		r.free <- struct{}{}
		synctest.Wait()
		time.Sleep(3 * time.Second)
		assert.Greater(t, leader.beatCount(), before)
		assert.True(t, leader.beat(-1).GetAllReports())
	})
}

func TestRun_NewLeaderIsSentNoReportOfAnEarlierStream(t *testing.T) {
	inBubble(t, func(t *testing.T, b bubble) {
		old, next := b.meta("meta-1"), b.meta("meta-2")
		old.lead(1)
		r := newSlowReport()
		n := b.node("data-1", []string{old.address, next.address}, r.use)
		require.NoError(t, n.WaitRegistered(t.Context()))
		time.Sleep(100 * time.Millisecond)
		<-r.free
		time.Sleep(1200 * time.Millisecond)
		asked := r.begun.Load() // in progress, asked for by the stream to the old leader

		next.lead(2)
		n.Announced(2, next.id, next.address)
		time.Sleep(200 * time.Millisecond)
		require.Equal(t, asked, r.begun.Load())
		r.free <- struct{}{}
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
		var loads []uint32
		for _, m := range next.beats {
			if m.GetAllReports() {
				loads = append(loads, m.GetLoad())
			}
		}
		require.NotEmpty(t, loads)
		assert.Greater(t, loads[0], asked, "what the node was before that leader was elected")
	})
}
