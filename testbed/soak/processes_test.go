package soak

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	_ "conclave/internal/bubble"
	"conclave/testbed"
	"conclave/testbed/check/blackbox"
)

// fake is a cluster whose processes are those of the test.
type fake struct {
	testbed.RealCluster
	all []testbed.Process
	err error
}

func (c *fake) Processes(context.Context) ([]testbed.Process, error) { return c.all, c.err }

// set sets what a process is.
func (c *fake) set(p testbed.Process) {
	for i := range c.all {
		if c.all[i].Name == p.Name {
			c.all[i] = p
		}
	}
}

// watch is processes of which each was seen to run.
type watch struct {
	*processes
	*fake
	t *testing.T
}

func newWatch(t *testing.T, names ...string) *watch {
	began := time.Now()
	o := blackbox.New(func() time.Duration { return time.Since(began) }, bounds, checks...)
	w := &watch{newProcesses(o), &fake{}, t}
	for i, name := range names {
		w.all = append(w.all, testbed.Process{Name: name, PID: i + 1, Running: true, RSS: 20 << 20})
	}
	w.see()
	return w
}

// see looks at the processes, a moment later.
func (w *watch) see() {
	time.Sleep(time.Second)
	w.look(w.t.Context(), w.fake)
}

func (w *watch) do(verb testbed.Verb, node string, alone bool) {
	a := testbed.Action{Verb: verb, Node: node}
	w.before(a, alone)
	w.after(a, nil)
}

func (w *watch) count(c blackbox.Check) blackbox.Count {
	for _, x := range w.oracle.Counts() {
		if x.Name == c {
			return x
		}
	}
	return blackbox.Count{}
}

// The unrequested end of a process is one violation; a requested one is none, nor is
// that of a process that was started while the processes were read.
func TestProcesses_ReportUnrequestedEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWatch(t, "data-1", "data-2", "meta-1")
		w.do(testbed.Kill, "data-2", false)
		w.set(testbed.Process{Name: "data-2", Signal: "killed"})
		w.see()
		assert.Zero(t, w.count(checkProcess).Broken)
		assert.Equal(t, 5, w.count(checkProcess).Checks)

		w.set(testbed.Process{Name: "data-1", Code: 2})
		w.see()
		w.see()
		assert.Equal(t, 1, w.count(checkProcess).Broken, "it is counted once")
		assert.Contains(t, w.oracle.Violations()[0].Text, "data-1")

		w.fake.err = errors.New("no answer")
		w.do(testbed.Start, "data-1", false)
		w.see()
		assert.Equal(t, 1, w.count(checkProcess).Broken, "it is not known how they are")
		w.fake.err = nil
		w.do(testbed.Start, "data-2", false)
		w.look(t.Context(), w.fake) // at the same moment
		assert.Equal(t, 2, w.count(checkProcess).Broken, "data-1 runs no more; data-2 may have been read before its start")
	})
}

// The end of a stop is checked if nothing else was done until then.
func TestProcesses_CheckHowACleanStopEnds(t *testing.T) {
	for name, c := range map[string]struct {
		during         func(w *watch)
		checks, broken int
	}{
		"in time":           {func(w *watch) { w.set(testbed.Process{Name: "data-1"}) }, 1, 0},
		"with an exit code": {func(w *watch) { w.set(testbed.Process{Name: "data-1", Code: 1}) }, 1, 1},
		"never":             {func(*watch) { time.Sleep(endBound) }, 1, 1},
		"killed before its time": {func(w *watch) {
			w.do(testbed.Kill, "data-1", false)
			w.set(testbed.Process{Name: "data-1", Signal: "killed"})
		}, 0, 0},
		"with another fault": {func(w *watch) {
			w.do(testbed.Pause, "data-2", false)
			w.set(testbed.Process{Name: "data-1", Code: 1})
		}, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWatch(t, "data-1", "data-2")
				w.do(testbed.Stop, "data-1", true)
				w.see()
				c.during(w)
				w.see()
				w.see()
				assert.Equal(t, blackbox.Count{Name: checkExit, Checks: c.checks, Broken: c.broken}, w.count(checkExit))
				assert.Zero(t, w.count(checkProcess).Broken)
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		w := newWatch(t, "data-1")
		w.do(testbed.Stop, "data-1", false)
		w.set(testbed.Process{Name: "data-1", Code: 1})
		w.see()
		assert.Zero(t, w.count(checkExit).Checks, "something else was in effect")
	})
}

func TestProcesses_KnowWhenAllDataNodesAndSessionsAreDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWatch(t, "meta-1", "data-1", "session-1")
		assert.False(t, w.lost())
		w.do(testbed.Kill, "data-1", false)
		assert.False(t, w.lost())
		w.do(testbed.Kill, "session-1", false)
		assert.True(t, w.lost())
		w.do(testbed.Start, "data-1", false)
		assert.False(t, w.lost())
	})
}

// What is reported is that of the longest incarnation; the bound is for all.
func TestProcesses_ReportTheirMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWatch(t, "data-1", "meta-1")
		w.see()
		w.set(testbed.Process{Name: "data-1", PID: 7, Running: true, RSS: 1030 << 20})
		w.see()
		g := w.growth(true)
		require.Len(t, g, 2)
		g[0].began = time.Time{}
		assert.Equal(t, Growth{Name: "data-1", PID: 1, Seconds: 1, FirstMB: 20, LastMB: 20, MostMB: 20}, g[0])
		assert.Zero(t, w.oracle.Broken(), "the bound of raced programs")
		w.growth(false)
		assert.Equal(t, 1, w.count(checkMemory).Broken)
	})
}

func TestProcesses_WarnOfMemoryThatGrows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWatch(t, "data-1", "data-2", "data-3")
		for second := range 150 {
			w.set(testbed.Process{Name: "data-1", PID: 1, Running: true, RSS: 20<<20 + int64(second)<<16}) // 3.75 MB a minute
			w.set(testbed.Process{Name: "data-2", PID: 2, Running: true, RSS: 20<<20 + int64(min(second, 50))<<20})
			w.set(testbed.Process{Name: "data-3", PID: 3 + second/100, Running: true, RSS: 20<<20 + int64(second)<<16})
			w.see()
		}
		g := w.growth(false)
		assert.InDelta(t, 3.75, g[0].PerMinute, 0.01)
		assert.True(t, g[0].Warning)
		assert.InDelta(t, 0, g[1].PerMinute, 0.01, "it grew at first")
		assert.False(t, g[1].Warning)
		assert.Zero(t, g[2].PerMinute, "no incarnation lived long enough")
		assert.Zero(t, w.oracle.Broken())
	})
}
