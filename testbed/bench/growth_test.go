package bench

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	_ "conclave/internal/bubble"
	"conclave/internal/sleep"
	"conclave/testbed"
)

// memoryRegistry is a registry in this process. An update is stored after delay.
type memoryRegistry struct {
	delay time.Duration

	mu       sync.Mutex // guards the rest
	lists    map[string]map[*memoryRegistration]string
	watchers map[string][]*memoryWatcher
}

// memoryWatcher takes lists one at a time: a newer one replaces one that waits.
type memoryWatcher struct {
	pushed func([]string)
	mu     sync.Mutex
}

type memoryRegistration struct {
	of     *memoryRegistry
	dataID string
	stored time.Time // when the newest value is; guarded by of.mu
}

func newMemoryRegistry(delay time.Duration) *memoryRegistry {
	return &memoryRegistry{delay: delay, lists: map[string]map[*memoryRegistration]string{}, watchers: map[string][]*memoryWatcher{}}
}

// inMemory returns a target that starts a memoryRegistry.
func inMemory(name string, delay time.Duration) Target {
	return Target{Name: name, Start: func(context.Context, testbed.Size) (Running, error) {
		return Running{Driver: newMemoryRegistry(delay), Stop: func() error { return nil }}, nil
	}}
}

func (m *memoryRegistry) Connect(string) (Link, error) { return m, nil }
func (m *memoryRegistry) Received() int64              { return 0 }
func (m *memoryRegistry) Lost() int64                  { return 0 }
func (m *memoryRegistry) Close()                       {}

func (m *memoryRegistry) Publish(_ context.Context, dataID, value string) (Registration, error) {
	r := &memoryRegistration{of: m, dataID: dataID}
	return r, r.Update(value)
}

func (m *memoryRegistry) Subscribe(dataID string, pushed func([]string)) error {
	w := &memoryWatcher{pushed: pushed}
	m.mu.Lock()
	m.watchers[dataID] = append(m.watchers[dataID], w)
	m.mu.Unlock()
	go m.push(dataID, w)
	return nil
}

// push gives the newest list to a watcher.
func (m *memoryRegistry) push(dataID string, w *memoryWatcher) {
	w.mu.Lock()
	defer w.mu.Unlock()
	m.mu.Lock()
	var values []string
	for _, v := range m.lists[dataID] {
		values = append(values, v)
	}
	m.mu.Unlock()
	w.pushed(values)
}

func (r *memoryRegistration) Update(value string) error {
	m := r.of
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.lists[r.dataID] == nil {
		m.lists[r.dataID] = map[*memoryRegistration]string{}
	}
	m.lists[r.dataID][r], r.stored = value, time.Now().Add(m.delay)
	for _, w := range m.watchers[r.dataID] {
		go m.push(r.dataID, w)
	}
	return nil
}

func (r *memoryRegistration) Stored(ctx context.Context) error {
	r.of.mu.Lock()
	wait := time.Until(r.stored)
	r.of.mu.Unlock()
	return sleep.For(ctx, wait)
}

func TestGrow_MeasuresEachCurve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var progress bytes.Buffer
		g, err := Grow(t.Context(), GrowthConfig{
			Targets:          []Target{inMemory("one", 200*time.Millisecond), inMemory("other", 400*time.Millisecond)},
			MaxRegistrations: 1000, MaxConnections: 20, For: time.Second, Progress: &progress,
		})
		require.NoError(t, err)
		require.Len(t, g.Curves, len(CurveNames()))
		assert.Zero(t, g.Failed(), "%s", progress.String())
		for i, c := range g.Curves {
			assert.Equal(t, CurveNames()[i], c.Name)
			require.NotEmpty(t, c.Points)
			for _, p := range c.Points {
				assert.Contains(t, p.Values, c.Plots[0].X, c.Name)
				assert.Contains(t, p.Values, c.Plots[0].Y, c.Name)
				for name := range p.Values {
					assert.Contains(t, columnNames(c), name, c.Name)
				}
			}
		}
		reg := g.Curves[0].Points
		assert.InEpsilon(t, 5000, reg[0].Values["rate"], 0.01, "1,000 in 200 ms")
		assert.InEpsilon(t, 2500, reg[1].Values["rate"], 0.01, "the other target has the same load")
		assert.InEpsilon(t, 200, reg[0].Values["p50Ms"], 0.01)
		over := g.Curves[5].Points
		require.Len(t, over, 6)
		assert.InEpsilon(t, 5000, over[0].Values["capacity"], 0.25, "1,000 loops of 200 ms")
		assert.InEpsilon(t, 10*over[4].Values["capacity"], over[4].Values["offered"], 0.05)
		assert.InEpsilon(t, 5000, over[4].Values["goodput"], 0.25, "merged updates do not count")
		assert.InEpsilon(t, 90, over[4].Values["merged"], 0.2)
		assert.LessOrEqual(t, over[4].Values["recoveredMs"], 1000.0)
		var out bytes.Buffer
		g.Write(&out)
		assert.Contains(t, out.String(), "GOODPUT per s")
	})
}

func columnNames(c Curve) (names []string) {
	for _, col := range c.Columns {
		names = append(names, col.Name)
	}
	return names
}

// A point that fails, or takes too long, is reported; the next one is measured.
func TestGrow_ContinuesAfterAFailedPoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		starts := 0
		target := Target{Name: "x", Start: func(ctx context.Context, s testbed.Size) (Running, error) {
			switch starts++; starts {
			case 1:
				return Running{}, errors.New("no port")
			case 2:
				return inMemory("", time.Hour).Start(ctx, s) // stores nothing in time
			case 3:
				r, err := inMemory("", time.Millisecond).Start(ctx, s)
				r.Stop = func() error { return errors.New("does not end") }
				return r, err
			}
			return inMemory("", time.Millisecond).Start(ctx, s)
		}}
		began := time.Now()
		g, err := Grow(t.Context(), GrowthConfig{
			Targets: []Target{target}, Only: []string{"registrations"}, MaxRegistrations: 100_000, Limit: time.Minute,
		})
		require.NoError(t, err)
		p := g.Curves[0].Points
		require.Len(t, p, 6)
		assert.Contains(t, p[0].Error, "no port")
		assert.Contains(t, p[1].Error, "more than the limit of 1m0s")
		assert.Contains(t, p[2].Error, "does not end")
		assert.Contains(t, p[2].Values, "rate", "what was measured before stays")
		assert.Empty(t, p[3].Error)
		assert.Equal(t, 3, g.Failed())
		assert.Less(t, time.Since(began), 2*time.Minute)
		assert.Equal(t, 1.0, p[2].Values["ratio"])
		var out bytes.Buffer
		g.Write(&out)
		assert.Equal(t, 3, strings.Count(out.String(), "FAILED"))
	})
}

func TestGrow_EndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		g, err := Grow(ctx, GrowthConfig{Targets: []Target{inMemory("x", time.Hour)}})
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		require.Len(t, g.Curves, 1)
		assert.Empty(t, g.Curves[0].Points)
	})
}

func TestGrowthConfig_ValidateNamesTheInvalidField(t *testing.T) {
	assert.NoError(t, GrowthConfig{Only: CurveNames()}.Validate())
	assert.ErrorContains(t, GrowthConfig{Only: []string{"weather"}}.Validate(), `"weather" (want one of registrations, connections, providers, nodes, losses, overload)`)
	assert.ErrorContains(t, GrowthConfig{MaxRegistrations: 3}.Validate(), "at most 3 registrations: want at least 1000")
}

func TestSizes_AreBounded(t *testing.T) {
	assert.Equal(t, []int{10, 100}, bounded([]int{10, 100, 1000}, 999))
	assert.Equal(t, []int{10, 100}, bounded([]int{10, 100}, 0), "no bound")
	assert.Equal(t, []int{7}, bounded([]int{10, 100}, 7), "the bound itself if all are larger")
	huge := connectionSizes(GrowthConfig{Huge: true, MaxConnections: 100, Files: 20_000})
	require.Len(t, huge, 2)
	assert.Equal(t, size{"connections": 100_000, "sessions": 7}, huge[1])
	assert.Equal(t, 2, sessionsFor(1000, 20_000))
	assert.Equal(t, 2, sessionsFor(math.MaxInt32, 0), "no limit is known")
}

func TestRatios_AreToTheFirstWithAsManyConnections(t *testing.T) {
	point := func(target string, connections, rate float64) Point {
		v := map[string]float64{"connections": connections}
		if rate > 0 {
			v["rate"] = rate
		}
		return Point{Target: target, Values: v}
	}
	p := []Point{point("a", 1, 0), point("a", 1, 100), point("b", 1, 10), point("a", 1, 80), point("a", 20, 50), point("b", 1, 20)}
	ratios(p)
	assert.NotContains(t, p[0].Values, "ratio", "it failed")
	for i, want := range map[int]float64{1: 1, 2: 1, 3: 0.8, 4: 1, 5: 2} {
		assert.Equal(t, want, p[i].Values["ratio"], i)
	}
}

func TestServeClients_ReportsTwice(t *testing.T) {
	in, begin := io.Pipe()
	var out bytes.Buffer
	done := make(chan error, 1)
	go func() {
		done <- ServeClients(t.Context(), newMemoryRegistry(0), "x", 5, in, &out)
	}()
	_, err := io.WriteString(begin, "begin\n")
	require.NoError(t, err)
	require.NoError(t, begin.Close())
	require.NoError(t, <-done)
	assert.Equal(t, 2, strings.Count(out.String(), "\n"))
	assert.Contains(t, out.String(), `{"served":5,"ended":true,"servedMs":[`)
	assert.Contains(t, out.String(), `{"lost":0}`)
	assert.ErrorContains(t, ServeClients(t.Context(), newMemoryRegistry(0), "x", 5, strings.NewReader(""), &out), "before it was asked")
}

// A process that ends by itself is an error, not an endless wait.
func TestManyClients_FailWithTheirProcess(t *testing.T) {
	p := &point{Running: Running{Clients: func(ctx context.Context, _, _ int) *exec.Cmd { return exec.CommandContext(ctx, "false") }}}
	release, err := p.manyClients(t.Context(), 2*clientsPerProcess, NewDist())
	assert.Error(t, err)
	_, err = release()
	assert.Error(t, err)
}

func TestServeAll_KeepsToTheNumberAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		served := NewDist()
		d := &waitingRegistry{memoryRegistry: newMemoryRegistry(0)}
		_, err := serveAll(t.Context(), d, "x", 20, 5, served)
		require.NoError(t, err)
		v := served.Values()
		assert.Equal(t, 20, v.N)
		assert.InEpsilon(t, 1000, v.Max, 0.01, "each since it was opened")
		ctx, cancel := context.WithTimeout(t.Context(), 2500*time.Millisecond)
		defer cancel()
		_, err = serveAll(ctx, d, "y", 20, 5, served)
		assert.ErrorContains(t, err, "10 of 20 connections had no push")
		synctest.Wait()
	})
}

// waitingRegistry pushes after a second.
type waitingRegistry struct{ *memoryRegistry }

func (w *waitingRegistry) Connect(string) (Link, error) { return w, nil }

func (w *waitingRegistry) Subscribe(dataID string, pushed func([]string)) error {
	time.AfterFunc(time.Second, func() { pushed([]string{"v"}) })
	return nil
}

func TestGrowthConfig_FitsTheMachine(t *testing.T) {
	huge := hugeConnections
	assert.NoError(t, GrowthConfig{}.fits(huge), "nothing is known")
	assert.NoError(t, GrowthConfig{Files: 100, Memory: 1}.fits(clientsPerProcess), "a failure would show soon enough")
	assert.NoError(t, GrowthConfig{Files: 20_000, Memory: 32 << 30}.fits(huge))
	assert.ErrorContains(t, GrowthConfig{Files: 1024}.fits(huge), "not enough open files for 100000 connections: the hard limit is 1024, want 12500 or more")
	assert.NoError(t, GrowthConfig{CPUs: 16}.fits(huge))
	assert.NoError(t, GrowthConfig{CPUs: 2}.fits(20_000))
	assert.ErrorContains(t, GrowthConfig{CPUs: 2}.fits(huge), "not enough processors for 100000 connections: 2, want at least 9, which their pings alone keep busy")
	assert.ErrorContains(t, GrowthConfig{Files: 20_000, Memory: 1 << 30}.fits(huge), "not enough memory for 100000 connections: 1024 MiB available, want about ")
	started := false
	g, err := Grow(t.Context(), GrowthConfig{Huge: true, Files: 20_000, Memory: 1, Only: []string{"connections"}, MaxConnections: 100, Targets: []Target{{
		Name: "x", Start: func(context.Context, testbed.Size) (Running, error) {
			started = true
			return Running{}, errors.New("started")
		},
	}}})
	require.NoError(t, err)
	assert.True(t, started, "the small point")
	assert.Contains(t, g.Curves[0].Points[1].Error, "not enough memory")
}

// A process of clients reports how many are served until it ends.
func TestClientProcess_CountsWhatWasServedBeforeItEnded(t *testing.T) {
	c, err := startClients(exec.CommandContext(t.Context(), "sh", "-c", `read begin; echo '{"served":7}'; exit 1`))
	require.NoError(t, err)
	assert.Error(t, c.serve(NewDist()))
	assert.EqualValues(t, 7, c.served.Load())
	_, err = c.end()
	assert.ErrorContains(t, err, "exit status 1")
}

func TestProvider_ValuesHave100Bytes(t *testing.T) {
	assert.Len(t, provider(9999, 20), 100)
	assert.Len(t, value(1_000_000), 100)
	assert.NotEqual(t, provider(1, 11), provider(11, 1))
}

func TestProcessorTimes_SetEachDividesByRegistrations(t *testing.T) {
	p := &point{values: map[string]float64{}}
	before := processorTimes{cluster: time.Second, load: time.Second}
	processorTimes{cluster: 3 * time.Second, load: time.Second}.setEach(p, before, 100_000)
	assert.Equal(t, map[string]float64{columnClusterEach.Name: 20}, p.values, "a time that is not known has no value")
}
