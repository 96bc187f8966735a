package soak

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	_ "conclave/internal/bubble"
	"conclave/slot"
	"conclave/testbed"
)

func TestGate_ClosesWhenChangesInProgressHaveEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		require.True(t, g.enter(t.Context()))
		limited, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		assert.Equal(t, 1, g.close(limited), "one change has not ended")
		closed := make(chan int)
		go func() { closed <- g.close(t.Context()) }()
		synctest.Wait()
		g.leave()
		assert.Zero(t, <-closed)

		entered := make(chan bool)
		go func() { entered <- g.enter(t.Context()) }()
		synctest.Wait()
		select {
		case <-entered:
			t.Fatal("a change began while the gate was closed")
		default:
		}
		g.open()
		assert.True(t, <-entered)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		g.leave()
		assert.Zero(t, g.close(t.Context()))
		assert.False(t, g.enter(ended))
	})
}

func TestMemory_SlopeOfLongestLifeAfterWarmUp(t *testing.T) {
	m := newMemory()
	for s := range 301 { // 100 MB in the first minute, then 3 MB a minute
		at := time.Duration(s) * time.Second
		bytes := int64(100*mega) + int64(s-60)*3*mega/60
		if s < 60 {
			bytes = int64(s) * 100 * mega / 60
		}
		m.note(at, []testbed.Process{{Name: "data-1", PID: 7, Running: true, RSS: bytes}, {Name: "meta-1", PID: 8, Running: true, RSS: 20 * mega}, {Name: "db"}})
	}
	m.note(301*time.Second, []testbed.Process{{Name: "data-1", PID: 9, Running: true, RSS: mega}})
	g := m.growth()
	require.Len(t, g, 2)
	assert.Equal(t, "data-1", g[0].Name)
	assert.Equal(t, 7, g[0].PID)
	assert.InDelta(t, 3, g[0].PerMinute, 0.1)
	assert.True(t, g[0].Warning)
	assert.InDelta(t, 0, g[1].PerMinute, 0.01)
	assert.False(t, g[1].Warning)
}

func TestLogs_ScanOnlyNewLines(t *testing.T) {
	file := filepath.Join(t.TempDir(), "data-1.log")
	l := logs{read: map[string]int64{}}
	add := func(text string) string {
		f, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
		require.NoError(t, err)
		_, err = f.WriteString(text)
		require.NoError(t, err)
		require.NoError(t, f.Close())
		found, err := l.scan(file)
		require.NoError(t, err)
		return found
	}
	assert.Empty(t, add("all is well\n"))
	assert.Equal(t, "WARNING: DATA RACE", add("WARNING: DATA RACE\nmore\n"))
	assert.Empty(t, add("all is well\nWARNING: DA"))
	assert.Equal(t, "WARNING: DATA RACE", add("TA RACE\n"), "a line that was written in two parts")
	assert.Equal(t, "panic: no", add("panic: no\n"))
}

// The unrequested end of a process is one violation. A process that is being
// started while the processes are read is none.
func TestRunner_ReportsUnrequestedEnds(t *testing.T) {
	r := &Runner{oracle: newForged().Oracle, states: newStates()}
	for _, n := range []string{"data-1", "data-2", "data-3", "meta-1"} {
		r.states.set(n, up)
	}
	r.states.set("data-2", down)
	r.states.set("data-3", stopping)
	r.states.clean["data-3"] = time.Now()
	before := r.states.moves
	r.states.set("meta-1", up) // started after the processes were read
	look := []testbed.Process{{Name: "data-1", Running: false, Code: 2}, {Name: "data-2"}, {Name: "data-3", Code: 0}, {Name: "meta-1"}}
	r.ended(look, before)
	assert.Equal(t, 1, r.oracle.Checks()[checkProcess].Broken)
	assert.Contains(t, r.oracle.Violations()[0].Text, "data-1")
	assert.Equal(t, 1, r.oracle.Checks()[checkExit].Checks)
	assert.Zero(t, r.oracle.Checks()[checkExit].Broken)
	assert.Equal(t, up, r.states.get("meta-1"))
	assert.Equal(t, down, r.states.get("data-3"))
	r.ended(look[:2], r.states.moves)
	assert.Equal(t, 1, r.oracle.Checks()[checkProcess].Broken, "it is counted once")

	r.states.set("data-1", stopping)
	r.states.clean["data-1"] = time.Now()
	r.ended([]testbed.Process{{Name: "data-1", Code: 1}}, r.states.moves)
	assert.Equal(t, 1, r.oracle.Checks()[checkExit].Broken, "a clean stop with exit code 1")
}

func TestRunner_DescribesWhatIsNotServed(t *testing.T) {
	c := &still{can: &testbed.Capabilities{}}
	r := &Runner{cluster: c, cfg: Config{Size: testbed.Size{Metas: 1, Datas: 1}}}
	now := testbed.Snapshot{Ready: []string{"meta-1"}}
	assert.Equal(t, "data-1 is not ready", r.unserved(now))
	now.Ready = append(now.Ready, "data-1")
	assert.Equal(t, "there is no slot table", r.unserved(now))
	now.Table.Slots = []slot.Slot{{Phase: slot.Stable}, {Phase: slot.Crash}}
	assert.Equal(t, "the slot table is not stable", r.unserved(now))
	now.Table.Slots[1].Phase = slot.Stable
	assert.Empty(t, r.unserved(now))
	now.Frozen = true
	assert.Equal(t, "the cluster is protected", r.unserved(now))
	now.Frozen, now.Forbid = false, []string{"data-1"}
	assert.Equal(t, "on the blacklist: data-1", r.unserved(now))
}

// still is a cluster of which only the capabilities are known.
type still struct {
	testbed.RealCluster
	can *testbed.Capabilities
}

func (c *still) Capabilities() *testbed.Capabilities { return c.can }

func (c *still) Do(context.Context, testbed.Action) error { return nil }

// A stop without other faults must end before the node is started again; with one
// it need not.
func TestStorm_NotesWhichStopsAreClean(t *testing.T) {
	r := &Runner{oracle: newForged().Oracle, states: newStates(), cfg: Config{Say: func(string) {}}}
	for _, n := range []string{"data-1", "session-1", "session-2"} {
		r.states.set(n, up)
	}
	p := &storm{RealCluster: &still{}, Runner: r, ctx: t.Context()}
	do := func(verb testbed.Verb, node string) {
		require.NoError(t, p.Do(t.Context(), testbed.Action{Verb: verb, Node: node}))
	}
	do(testbed.Stop, "data-1")
	do(testbed.Kill, "session-1")
	do(testbed.Kill, "data-1") // as the player does before it starts a node that still stops
	do(testbed.Start, "data-1")
	assert.Zero(t, r.oracle.Checks()[checkExit].Checks)
	do(testbed.Start, "session-1")
	assert.Equal(t, up, r.states.get("session-1"))
	do(testbed.Stop, "data-1")
	r.states.clean["data-1"] = time.Now().Add(-endBound)
	do(testbed.Kill, "data-1")
	assert.Equal(t, 1, r.oracle.Checks()[checkExit].Broken)
	assert.False(t, r.oracle.lost > 0)
	do(testbed.Kill, "session-1")
	do(testbed.Kill, "session-2")
	assert.GreaterOrEqual(t, r.oracle.lost, time.Duration(0), "all data nodes and sessions are down")
	assert.Equal(t, "kill session-2", p.steps[len(p.steps)-1].Step)
	assert.Equal(t, "done", p.steps[len(p.steps)-1].Outcome)
}
