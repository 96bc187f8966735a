package scenario_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"conclave/testbed"
	"conclave/testbed/check"
	"conclave/testbed/scenario"
)

// published returns how many changes the clients made between two times.
func published(r *scenario.Result, from, to time.Duration) (n int) {
	for _, e := range r.History.Entries {
		if e.Op != nil && e.Op.Kind == check.OpPublish && from <= e.At && e.At < to {
			n++
		}
	}
	return n
}

// faults returns the actions of the history, in order.
func faults(r *scenario.Result) (out []string) {
	for _, e := range r.History.Entries {
		if e.Fault != nil {
			out = append(out, e.At.Round(time.Second).String()+" "+e.Fault.Action.String())
		}
	}
	return out
}

func TestBurst_ClientsChangeMoreUntilItEnds(t *testing.T) {
	r := play(t, &fakeCluster{}, "clients 4 names 4 every 100ms bulk 10\nat 12s burst by 20 for 4s\nuntil 32s")
	assert.Empty(t, r.Problems())
	assert.Equal(t, []string{"12s burst by 20", "16s end burst"}, faults(r))
	before, during, after := published(r, 8*time.Second, 12*time.Second), published(r, 12*time.Second, 16*time.Second), published(r, 16*time.Second, 20*time.Second)
	assert.InEpsilon(t, 160, before, 0.1)
	assert.InEpsilon(t, 21*160, during, 0.1)
	assert.InEpsilon(t, 160, after, 0.1)
	for _, v := range r.Verdicts {
		if v.ID == "L23" {
			assert.Equal(t, 1, v.Checks, "the rates were compared")
		}
	}
}

// A burst of new registrations changes nothing that clients read, and they stay.
func TestBurst_ClientsMakeNewRegistrations(t *testing.T) {
	cluster := &fakeCluster{}
	r := play(t, cluster, "clients 4 names 4 every 1s\nat 5s burst of 100 for 4s\nat 5s expect current for 4s\nuntil 12s")
	assert.Empty(t, r.Problems())
	assert.Equal(t, []string{"5s burst of 100", "9s end burst"}, faults(r))
	assert.InEpsilon(t, published(r, 1*time.Second, 5*time.Second), published(r, 5*time.Second, 9*time.Second), 0.3)
	arrived := 0
	for name, registrations := range cluster.data {
		if strings.HasPrefix(name, "arrivals-") {
			arrived += len(registrations)
		}
	}
	assert.Equal(t, 400, arrived)
}

// A burst without an end is ended with the other faults, and a second one
// replaces the first. Clients that are killed in a burst end with it.
func TestBurst_EndsWithTheFaults(t *testing.T) {
	r := play(t, &fakeCluster{}, "clients 2 names 2 every 1s\nat 1s burst by 10\nat 2s burst by 20\nat 3s kill client-1\nuntil 4s")
	assert.Empty(t, r.Failures)
	assert.Equal(t, []string{"1s burst by 10", "2s burst by 20", "3s kill client-1", "4s end burst"}, faults(r))
	assert.Less(t, published(r, 4100*time.Millisecond, time.Hour), 10)
}

// machines are a cluster whose nodes have budgets; data-1 does not run for a
// moment, as far as the members are concerned.
type machines struct {
	*fakeCluster
	away time.Duration
}

func (m machines) Capabilities() *testbed.Capabilities {
	can := m.fakeCluster.Capabilities()
	can.Usage = func() []testbed.Usage {
		return []testbed.Usage{{Node: "data-1", Offered: time.Millisecond, Queued: 7}, {Node: "data-2"}}
	}
	return can
}

func (m machines) Observe(ctx context.Context) testbed.Snapshot {
	s := m.fakeCluster.Observe(ctx)
	m.mu.Lock()
	defer m.mu.Unlock()
	s.Ready = []string{"meta-1", "session-1"}
	if at := time.Since(m.start); at < m.away || at > m.away+time.Second {
		s.Ready = append(s.Ready, "data-1")
	}
	return s
}

func TestBudget_UsageAndRemovedNodesAreRecorded(t *testing.T) {
	const text = "budget data 1ms a message 1us a byte\nclients 1 names 1 every 1s\nat 1s burst by 2 for 1s\nuntil 6s"
	r := play(t, machines{&fakeCluster{}, 3 * time.Second}, text)
	var used, removed int
	for _, e := range r.History.Entries {
		switch {
		case e.Usage != nil:
			used++
			assert.Equal(t, testbed.Usage{Node: "data-1", Offered: time.Millisecond, Queued: 7}, *e.Usage, "what has nothing to do is left out")
		case e.Op != nil && e.Op.Kind == check.OpEvicted:
			removed++
			assert.Equal(t, "data-1", e.Op.Client)
		}
	}
	assert.InDelta(t, 60, used, 5, "ten times a second")
	assert.Equal(t, 1, removed)

	r = play(t, &fakeCluster{}, text)
	assert.Contains(t, r.Skipped, "only simulated nodes have one")
	r = play(t, machines{&fakeCluster{}, 3 * time.Second}, strings.Replace(text, "budget data 1ms a message 1us a byte\n", "", 1))
	for _, e := range r.History.Entries {
		assert.Nil(t, e.Usage, "without a budget nothing is recorded")
	}
}
