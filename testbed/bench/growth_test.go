package bench

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/client"
	_ "conclave/internal/bubble"
	"conclave/internal/sleep"
	"conclave/testbed"
	"conclave/testbed/load"
)

// memoryRegistry is a registry in this process. An update is stored after delay.
type memoryRegistry struct {
	delay     time.Duration // until an update is stored
	pushAfter time.Duration // from a subscription; 0: at once

	mu       sync.Mutex // guards the rest
	lists    map[string]map[*memoryRegistration]string
	watchers map[string][]*memoryWatcher
}

// memoryWatcher takes lists one at a time: a newer one replaces one that waits.
type memoryWatcher struct {
	pushed func(conclave.Datum)
	mu     sync.Mutex
}

type memoryRegistration struct {
	testbed.Publication
	of     *memoryRegistry
	dataID string
	stored time.Time // when the newest value is; guarded by of.mu
}

// memoryClient is a client of a memoryRegistry.
type memoryClient struct {
	load.Client
	*memoryRegistry
}

// pool returns a pool of clients of the registry.
func (m *memoryRegistry) pool() *load.Pool {
	m.lists, m.watchers = map[string]map[*memoryRegistration]string{}, map[string][]*memoryWatcher{}
	p := load.NewPool(client.Config{Sessions: []string{"session"}})
	p.Start = func(client.Config) (load.Client, error) { return memoryClient{memoryRegistry: m}, nil }
	return p
}

// inMemory starts a memoryRegistry.
func inMemory(delay time.Duration) func(context.Context, testbed.Size) (Running, error) {
	return func(context.Context, testbed.Size) (Running, error) {
		m := &memoryRegistry{delay: delay}
		return Running{Clients: m.pool(), Stop: func() error { return nil }}, nil
	}
}

func (c memoryClient) Lost() int64 { return 0 }
func (c memoryClient) Kill()       {}

func (c memoryClient) Publish(_ context.Context, dataID string, values []string) (testbed.Publication, error) {
	r := &memoryRegistration{of: c.memoryRegistry, dataID: dataID}
	return r, r.Update(values)
}

func (c memoryClient) Subscribe(dataID string, pushed func(conclave.Datum)) error {
	w := &memoryWatcher{pushed: pushed}
	c.mu.Lock()
	c.watchers[dataID] = append(c.watchers[dataID], w)
	c.mu.Unlock()
	time.AfterFunc(c.pushAfter, func() { c.push(dataID, w) })
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
	w.pushed(conclave.Datum{Values: values})
}

func (r *memoryRegistration) Update(values []string) error {
	m := r.of
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.lists[r.dataID] == nil {
		m.lists[r.dataID] = map[*memoryRegistration]string{}
	}
	m.lists[r.dataID][r], r.stored = values[0], time.Now().Add(m.delay)
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
			Start:            inMemory(200 * time.Millisecond),
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
		assert.InEpsilon(t, 200, reg[0].Values["p50Ms"], 0.01)
		over := g.Curves[5].Points
		require.Len(t, over, 3)
		assert.InEpsilon(t, 5000, over[0].Values["capacity"], 0.25, "1,000 loops of 200 ms")
		assert.InEpsilon(t, 10*over[2].Values["capacity"], over[2].Values["offered"], 0.05)
		assert.InEpsilon(t, 5000, over[2].Values["goodput"], 0.25, "merged updates do not count")
		assert.InEpsilon(t, 90, over[2].Values["merged"], 0.2)
		assert.LessOrEqual(t, over[2].Values["recoveredMs"], 1000.0)
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
		start := func(ctx context.Context, s testbed.Size) (Running, error) {
			switch starts++; starts {
			case 1:
				return Running{}, errors.New("no port")
			case 2:
				return inMemory(time.Hour)(ctx, s) // stores nothing in time
			case 3:
				r, err := inMemory(time.Millisecond)(ctx, s)
				r.Stop = func() error { return errors.New("does not end") }
				return r, err
			}
			return inMemory(time.Millisecond)(ctx, s)
		}
		began := time.Now()
		g, err := Grow(t.Context(), GrowthConfig{
			Start: start, Only: []string{"registrations"}, MaxRegistrations: 100_000, Limit: time.Minute,
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
		g, err := Grow(ctx, GrowthConfig{Start: inMemory(time.Hour)})
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
	a := axis{"registrations", []int{10, 100, 1000}, registrationBound}
	assert.Equal(t, []int{10, 100}, a.within(GrowthConfig{MaxRegistrations: 999}))
	assert.Equal(t, []int{10, 100, 1000}, a.within(GrowthConfig{}), "no bound")
	assert.Equal(t, []int{7}, a.within(GrowthConfig{MaxRegistrations: 7}), "the bound itself if all are larger")
	huge := curves[1].sizes(GrowthConfig{Huge: true, MaxConnections: 100})
	assert.Equal(t, []size{{"connections": 100}, {"connections": 100_000}}, huge)
}

func TestRatios_AreToTheFirstWithAsManyConnections(t *testing.T) {
	point := func(connections, rate float64) Point {
		v := map[string]float64{"connections": connections}
		if rate > 0 {
			v["rate"] = rate
		}
		return Point{Values: v}
	}
	p := []Point{point(1, 0), point(1, 100), point(1, 80), point(20, 50), point(20, 100)}
	ratios(p)
	assert.NotContains(t, p[0].Values, "ratio", "it failed")
	for i, want := range map[int]float64{1: 1, 2: 0.8, 3: 1, 4: 2} {
		assert.Equal(t, want, p[i].Values["ratio"], i)
	}
}

func TestServeAll_KeepsToTheNumberAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		served := load.NewDist()
		pool := (&memoryRegistry{pushAfter: time.Second}).pool()
		var clients load.Clients
		require.NoError(t, clients.ServeAll(t.Context(), pool, "x", 20, 5, served.Add))
		assert.Len(t, clients, 20)
		v := served.Values()
		assert.Equal(t, 20, v.N)
		assert.InEpsilon(t, 1000, v.Max, 0.01, "each since it was opened")
		ctx, cancel := context.WithTimeout(t.Context(), 2500*time.Millisecond)
		defer cancel()
		assert.ErrorContains(t, clients.ServeAll(ctx, pool, "y", 20, 5, served.Add), "10 of 20 connections had no push")
		time.Sleep(time.Second)
		synctest.Wait()
	})
}

func TestGrowthConfig_FitsTheMachine(t *testing.T) {
	huge := hugeConnections
	assert.NoError(t, GrowthConfig{}.fits(huge), "nothing is known")
	assert.NoError(t, GrowthConfig{Files: 100, Memory: 1}.fits(usualConnections), "a failure would show soon enough")
	assert.NoError(t, GrowthConfig{Files: 200_000, Memory: 32 << 30}.fits(huge))
	assert.ErrorContains(t, GrowthConfig{Files: 1024}.fits(huge), "not enough open files for 100000 connections: the hard limit is 1024, want 125000 or more")
	assert.NoError(t, GrowthConfig{CPUs: 16}.fits(huge))
	assert.NoError(t, GrowthConfig{CPUs: 2}.fits(20_000))
	assert.ErrorContains(t, GrowthConfig{CPUs: 2}.fits(huge), "not enough processors for 100000 connections: 2, want at least 9, which their pings alone keep busy")
	assert.ErrorContains(t, GrowthConfig{Files: 200_000, Memory: 1 << 30}.fits(huge), "not enough memory for 100000 connections: 1024 MiB available, want about ")
	started := false
	g, err := Grow(t.Context(), GrowthConfig{Huge: true, Files: 200_000, Memory: 1, Only: []string{"connections"}, MaxConnections: 100,
		Start: func(context.Context, testbed.Size) (Running, error) {
			started = true
			return Running{}, errors.New("started")
		},
	})
	require.NoError(t, err)
	assert.True(t, started, "the small point")
	assert.Contains(t, g.Curves[0].Points[1].Error, "not enough memory")
}

func TestProvider_ValuesHave100Bytes(t *testing.T) {
	assert.Len(t, provider(9999, 20), 100)
	assert.Len(t, load.Value(1_000_000), 100)
	assert.NotEqual(t, provider(1, 11), provider(11, 1))
}

func TestPoint_SetEachDividesByRegistrations(t *testing.T) {
	p := &point{curve: curves[0], values: map[string]float64{}}
	p.setEach("clusterUs", 2*time.Second, 100_000)
	p.setEach("loadUs", 0, 100_000)
	p.set("capacity", 7)
	assert.Equal(t, map[string]float64{"clusterUs": 20}, p.values, "neither a time that is not known nor a column of another curve")
}
