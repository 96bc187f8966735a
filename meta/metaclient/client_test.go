package metaclient_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/meta/metaclient"
	"conclave/slot"
	"conclave/testbed/simulated/simnet"
	"conclave/wire"
	wirev1 "conclave/wire/v1"
)

// inBubble runs a test on a network of its own, in virtual time.
func inBubble(t *testing.T, f func(*testing.T, bubble)) {
	synctest.Test(t, func(t *testing.T) { f(t, bubble{t: t, net: simnet.New(1)}) })
}

func TestRun_FindsTheLeaderThroughAFollowerAndRegisters(t *testing.T) {
	inBubble(t, func(t *testing.T, b bubble) {
		leader, follower := b.meta("meta-1"), b.meta("meta-2")
		leader.lead(7)
		follower.set(func() { follower.knows = metaclient.Leader{Term: 7, Node: leader.id, Address: leader.address} })
		start := time.Now()
		n := b.node("data-1", []string{"meta-9:9615", follower.address}) // the first one does not run

		require.NoError(t, n.WaitRegistered(t.Context()))
		assert.Less(t, time.Since(start), 20*time.Millisecond)
		l, ok := n.Leader()
		assert.True(t, ok)
		assert.Equal(t, metaclient.Leader{Term: 7, Node: leader.id, Address: leader.address}, l)
		assert.Equal(t, uint64(7), n.fence.Highest())
		assert.Equal(t, 3*time.Second, n.NodeLease())
	})
}

func TestRun_SendsABeatAtEachBeatAndPoke(t *testing.T) {
	inBubble(t, func(t *testing.T, b bubble) {
		leader := b.meta("meta-1")
		leader.lead(1)
		n := b.node("data-1", []string{leader.address}, func(c *metaclient.Config) {
			c.Report = func() ([]*wirev1.SlotReport, uint32, bool, bool) {
				return []*wirev1.SlotReport{{Slot: 3, State: string(slot.Serving)}}, 42, true, true
			}
		})
		require.NoError(t, n.WaitRegistered(t.Context()))
		time.Sleep(10 * time.Second)
		synctest.Wait()
		calm := leader.beatCount()
		assert.InDelta(t, 11, calm, 1)

		n.Poke()
		synctest.Wait()
		assert.Equal(t, calm+1, leader.beatCount())
		last := leader.beat(calm)
		assert.Equal(t, uint32(42), last.GetLoad())
		assert.True(t, last.GetMember().GetDraining())
		assert.Equal(t, "serving", last.GetReports()[0].GetState())
		assert.Less(t, n.LostFor(), time.Second)
	})
}

// Copies become complete one after the other, each with a Poke.
func TestPoke_ReportsAreAPauseApart(t *testing.T) {
	inBubble(t, func(t *testing.T, b bubble) {
		leader := b.meta("meta-1")
		leader.lead(1)
		var load atomic.Uint32
		n := b.node("data-1", []string{leader.address}, func(c *metaclient.Config) {
			c.Report = func() ([]*wirev1.SlotReport, uint32, bool, bool) { return nil, load.Load(), true, false }
		})
		require.NoError(t, n.WaitRegistered(t.Context()))
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
		calm := leader.beatCount()
		for range 4 {
			load.Add(1)
			n.Poke()
			time.Sleep(time.Millisecond)
		}
		synctest.Wait()
		require.Equal(t, calm+1, leader.beatCount(), "the first one at once, the others later")
		assert.Equal(t, uint32(1), leader.beat(calm).GetLoad())
		time.Sleep(10 * time.Millisecond)
		synctest.Wait()
		require.Equal(t, calm+2, leader.beatCount(), "one report for three pokes")
		assert.Equal(t, uint32(4), leader.beat(calm+1).GetLoad())
	})
}

// A report may wait for locks that bulk holds. The beats do not: those whose
// report is late are sent without reports on the slots, and what they carry
// besides is what was reported last. The report follows when it is there.
func TestAnnounced_IsFollowedAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, b bubble) {
		old, next := b.meta("meta-1"), b.meta("meta-2")
		old.lead(1)
		n := b.node("data-1", []string{old.address, next.address})
		require.NoError(t, n.WaitRegistered(t.Context()))

		old.set(func() { old.silent = true }) // frozen, not killed
		next.lead(2)
		n.Announced(2, next.id, next.address)
		synctest.Wait()
		l, _ := n.Leader()
		assert.Equal(t, next.id, l.Node)

		n.Announced(1, old.id, old.address) // a late announcement of the old leader
		synctest.Wait()
		l, _ = n.Leader()
		assert.Equal(t, next.id, l.Node)
	})
}

func TestRun_SeeksAnotherLeaderAfterTwoMissedBeats(t *testing.T) {
	inBubble(t, func(t *testing.T, b bubble) {
		old, next := b.meta("meta-1"), b.meta("meta-2")
		old.lead(1)
		n := b.node("data-1", []string{old.address, next.address})
		require.NoError(t, n.WaitRegistered(t.Context()))
		old.set(func() { old.silent, old.leads = true, 0 })
		next.lead(2)
		old.set(func() { old.leads = 1 }) // it still believes it leads
		start := time.Now()
		require.Eventually(t, func() bool { l, _ := n.Leader(); return l.Term == 2 }, 10*time.Second, time.Millisecond)
		assert.LessOrEqual(t, time.Since(start), 2500*time.Millisecond)
	})
}

func TestRun_RefusesAndCountsAnOlderTerm(t *testing.T) {
	inBubble(t, func(t *testing.T, b bubble) {
		stale := b.meta("meta-1")
		stale.view.Set(wire.State{Switches: wire.Switches{Epoch: conclave.Epoch{Term: 3, Seq: 1}, List: []wire.Switch{{Key: "arrange", Value: "off"}}}})
		n := b.node("data-1", []string{stale.address}, func(c *metaclient.Config) { c.Fence.Saw(9) })
		stale.lead(3)
		time.Sleep(time.Second)
		synctest.Wait()
		_, ok := n.Leader()
		assert.False(t, ok)
		assert.Empty(t, n.view.State().Switches.List)
		assert.Positive(t, n.fence.Refused())

		// An announcement makes the node join that leader, which then receives
		// the highest term and is refused.
		n.Announced(3, stale.id, stale.address)
		synctest.Wait()
		assert.Empty(t, n.view.State().Switches.List)
	})
}

func TestBehind_FetchesTheStateOfThePeer(t *testing.T) {
	inBubble(t, func(t *testing.T, b bubble) {
		leader, peer := b.meta("meta-1"), b.meta("data-2")
		leader.lead(1)
		n := b.node("data-1", []string{leader.address})
		require.NoError(t, n.WaitRegistered(t.Context()))
		ahead := conclave.Epoch{Term: 1, Seq: 9}
		peer.view.Set(wire.State{Table: slot.Table{Epoch: ahead, Slots: []slot.Slot{{ID: 0, Phase: slot.Stable, Leader: n.Self.Node, LeaderEpoch: ahead}}}})
		n.Behind(peer.address, ahead)
		time.Sleep(30 * time.Millisecond)
		assert.Equal(t, ahead, n.view.TableEpoch())
		synctest.Wait()
		last := leader.beat(-1)
		assert.Equal(t, ahead, wire.EpochIn(last.GetHave().GetTable()), "the leader is notified at once")
		assert.False(t, last.GetAllReports(), "a table alone is no reason for a report")
	})
}

func TestBehind_FetchesNothingThatTheLeaderSends(t *testing.T) {
	inBubble(t, func(t *testing.T, b bubble) {
		leader, peer := b.meta("meta-1"), b.meta("data-2")
		leader.lead(1)
		n := b.node("data-1", []string{leader.address})
		require.NoError(t, n.WaitRegistered(t.Context()))
		ahead := conclave.Epoch{Term: 1, Seq: 9}
		table := slot.Table{Epoch: ahead, Slots: []slot.Slot{{ID: 0, Phase: slot.Stable, Leader: n.Self.Node, LeaderEpoch: ahead}}}
		theirs := wire.State{Table: table, Switches: wire.Switches{Epoch: ahead}} // only the peer has the switches
		peer.view.Set(theirs)
		n.Behind(peer.address, ahead)
		time.Sleep(15 * time.Millisecond)
		_, err := n.view.Apply(wire.StateOut(wire.State{Table: table}, nil)) // as the leader's stream does
		require.NoError(t, err)
		time.Sleep(time.Second)
		assert.Zero(t, n.view.State().Switches.Epoch, "the whole state was fetched although the table had arrived")
	})
}

func TestRun_EndsWhenALivingProcessHasTheName(t *testing.T) {
	inBubble(t, func(t *testing.T, b bubble) {
		leader := b.meta("meta-1")
		leader.lead(1)
		leader.set(func() { leader.refuse = wire.Errorf(wire.CodeConflict, "data-1 runs at data-1:9622") })
		n := b.node("data-1", []string{leader.address})
		err := <-n.err
		assert.Equal(t, wire.CodeConflict, wire.CodeOf(err))
		assert.ErrorContains(t, err, "data-1 runs at data-1:9622")
		n.err <- err // Run ends once: the channel keeps its value
	})
}

func TestDrain_WaitsForALeaderAndFollowsIt(t *testing.T) {
	inBubble(t, func(t *testing.T, b bubble) {
		first, second := b.meta("meta-1"), b.meta("meta-2")
		n := b.node("data-1", []string{first.address})
		done := make(chan error, 1)
		go func() { done <- drained(n.Drain(context.Background(), "stop")) }()
		time.Sleep(5 * time.Second) // no node leads
		second.lead(4)
		first.set(func() { first.knows = metaclient.Leader{Term: 4, Node: second.id, Address: second.address} })
		require.NoError(t, <-done)
		assert.Equal(t, []string{"drain"}, second.calls)

		second.set(func() { second.refuse = wire.Errorf(wire.CodeNoSuccessor, "no other data node is up") })
		err := drained(n.Drain(context.Background(), "stop"))
		assert.Equal(t, wire.CodeNoSuccessor, wire.CodeOf(err))
	})
}

func TestRun_FindsTheFirstLeaderAfterAnHour(t *testing.T) {
	inBubble(t, func(t *testing.T, b bubble) {
		n := b.node("data-1", []string{"meta-1:9615"})
		time.Sleep(time.Hour)
		_, ever := n.LastContact()
		assert.False(t, ever)
		assert.GreaterOrEqual(t, n.LostFor(), time.Hour)
		leader := b.meta("meta-1")
		leader.lead(1)
		start := time.Now()
		require.NoError(t, n.WaitRegistered(t.Context()))
		assert.Less(t, time.Since(start), 500*time.Millisecond)
	})
}

// drained returns the error of a drain.
func drained(_ conclave.Epoch, err error) error { return err }
