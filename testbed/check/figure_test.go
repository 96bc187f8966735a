package check_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/internal/trace"
	"conclave/testbed"
	"conclave/testbed/check"
)

func figure(t *testing.T, f *forger, name string) check.Figure {
	all := check.Figures(&f.h, []string{name})
	require.Len(t, all, 1)
	return all[0]
}

// observed adds what was seen from outside.
func (f *forger) observed(leader string, term uint64) *forger {
	return f.add(check.Entry{Observed: &check.Observation{Leader: leader, Term: term}})
}

func TestFigures_MeasureForgedHistories(t *testing.T) {
	f := forge()
	f.claim("meta-1", led(7, 3*time.Second)).pause(time.Second)
	f.claim("meta-1", trace.Claim{Kind: trace.Left, Term: 7}).pause(49 * time.Millisecond)
	f.claim("meta-2", led(8, 3*time.Second))
	leaderless := figure(t, f, "leaderless")
	assert.Equal(t, 1, leaderless.N)
	assert.Equal(t, 50*time.Millisecond, leaderless.Max)
	assert.Equal(t, 2, figure(t, f, "elections").N)

	f = forge()
	f.claim("data-1", trace.Claim{Kind: trace.Serving, Slot: 1, Epoch: epoch(7, 1)})
	f.fault(testbed.Action{Verb: testbed.Kill, Node: "data-1"}).pause(199 * time.Millisecond)
	f.claim("data-2", trace.Claim{Kind: trace.Serving, Slot: 1, Epoch: epoch(7, 2)})
	assert.Equal(t, 200*time.Millisecond, figure(t, f, "unserved").Max)

	f = forge()
	published(f, 1).pause(9 * time.Millisecond)
	push(f, "c", 5, "client-1/1#1").pause(time.Second)
	push(f, "c", 6, "client-1/1#1")
	push(f, "c", 7)
	assert.Equal(t, []time.Duration{10 * time.Millisecond}, figure(t, f, "push").Times)
	assert.Equal(t, 1, figure(t, f, "empty").N)
}

// The time to progress counts from the healing, however long ago the last fault
// was.
func TestFigures_HealedCountsFromHealing(t *testing.T) {
	f := forge()
	f.fault(testbed.Action{Verb: testbed.Kill, Node: "client-1"}).pause(20 * time.Second)
	f.op(check.Op{Kind: check.OpHealed}).pause(time.Second)
	f.op(check.Op{Kind: check.OpProgress, Name: "leader"}).pause(time.Second)
	f.op(check.Op{Kind: check.OpProgress, Name: "even"}).op(check.Op{Kind: check.OpProgress, Name: "full", Err: errors.New("never")})
	healed := check.Figures(&f.h, []string{"healed"})[0]
	assert.Equal(t, 2, healed.N)
	assert.InDelta(t, 2*time.Second, healed.Max, float64(100*time.Millisecond))
}

// What was measured until an earlier moment is left out.
func TestSince_LeavesOutWhatWasThereBefore(t *testing.T) {
	h := &check.History{}
	leaderless := func(from, to time.Duration) {
		h.Entries = append(h.Entries, check.Entry{At: from, Observed: &check.Observation{}}, check.Entry{At: to, Observed: &check.Observation{Leader: "meta-1"}},
			check.Entry{At: to, Op: &check.Op{Kind: check.OpPush}})
	}
	names := []string{"leaderless", "empty"}
	leaderless(time.Second, 2*time.Second)
	before := check.Figures(h, names)
	leaderless(3*time.Second, 6*time.Second)
	got := check.Since(before, check.Figures(h, names))
	require.Len(t, got, 2)
	assert.Equal(t, []time.Duration{3 * time.Second}, got[0].Times)
	assert.Equal(t, 3*time.Second, got[0].Max)
	assert.Equal(t, 1, got[1].N)
	assert.Equal(t, before, check.Since(nil, before))
}

func TestFigures_MeasureQueues(t *testing.T) {
	f := forge()
	use := func(node string, offered, waited time.Duration, queued int) {
		f.pause(399 * time.Millisecond).add(check.Entry{Usage: &testbed.Usage{Node: node, Offered: offered, Waited: waited, Queued: queued}})
	}
	use("data-1", 500*time.Millisecond, time.Millisecond, 10)
	use("data-1", 300*time.Millisecond, 7*time.Millisecond, 300)
	use("data-2", 900*time.Millisecond, 2*time.Millisecond, 20)
	use("data-1", 800*time.Millisecond, 3*time.Millisecond, 30) // more than a second after the first one
	waited := figure(t, f, "waited")
	assert.Equal(t, 4, waited.N)
	assert.Equal(t, 7*time.Millisecond, waited.Max)
	assert.Equal(t, 300, figure(t, f, "queued").N)
	assert.Equal(t, 110, figure(t, f, "overload").N)
	assert.Equal(t, "    0.400s data-1 offered 500ms waited 1ms queued 10 blocked 0", f.h.Entries[0].String())
}
