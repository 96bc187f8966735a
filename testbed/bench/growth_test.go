package bench

import (
	"bytes"
	"context"
	"errors"
	"net/http"
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

// memoryCluster is a cluster whose processes do not exist, with clients of a registry in
// this process.
type memoryCluster struct {
	testbed.RealCluster
	closes error
}

func (memoryCluster) AwaitReady(context.Context) error                     { return nil }
func (memoryCluster) Addresses() map[string]string                         { return nil }
func (memoryCluster) Processes(context.Context) ([]testbed.Process, error) { return nil, nil }
func (memoryCluster) ClientConfig(string) (client.Config, error)           { return client.Config{}, nil }
func (memoryCluster) Secure(t *http.Transport) http.RoundTripper           { return t }
func (memoryCluster) Do(context.Context, testbed.Action) error             { return nil }
func (c memoryCluster) Close(context.Context) error                        { return c.closes }

// inMemory configures clusters whose registries take delay to store an update.
func inMemory(delay time.Duration) Config {
	return Config{
		Full:    true,
		Another: func(context.Context, bool) (testbed.RealCluster, error) { return memoryCluster{}, nil },
		newPool: func(client.Config) *load.Pool { return (&memoryRegistry{delay: delay}).pool() },
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

// named returns the figures whose names begin with a prefix.
func named(r Report, prefix string) (out []Figure) {
	for _, f := range r.Figures {
		if strings.HasPrefix(f.Name, prefix) {
			out = append(out, f)
		}
	}
	return out
}

func TestRun_MeasuresEachSize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := inMemory(200 * time.Millisecond)
		cfg.Only = []string{"registrations", "connections", "overload"} // losses needs the nodes' HTTP interface
		cfg.MaxRegistrations, cfg.MaxConnections, cfg.For = 1000, 20, time.Second
		r, err := Run(t.Context(), cfg)
		require.NoError(t, err)
		rates := named(r, "registrations-rate")
		require.Len(t, rates, 3)
		assert.Equal(t, "registrations-rate-200-1000", rates[2].Name)
		assert.Equal(t, "200 connections, 1000 registrations: registrations stored", rates[2].What)
		assert.InEpsilon(t, 5000, rates[0].P50, 0.01, "1,000 in 200 ms")
		assert.InEpsilon(t, 200, named(r, "registrations-stored")[0].P50, 0.01)
		assert.Len(t, named(r, "connections-all-20"), 1)
		assert.Len(t, named(r, "connections-killed-20"), 1)
		assert.Zero(t, named(r, "connections-bounced-20")[0].P50)
		assert.InEpsilon(t, 5000, named(r, "overload-capacity")[0].P50, 0.25, "1,000 loops of 200 ms")
		goodput := named(r, "overload-goodput")
		require.Len(t, goodput, 3)
		assert.InEpsilon(t, 1, goodput[2].P50, 0.25, "merged updates do not count")
		assert.Regexp(t, "merged (8|9).* %", goodput[2].Note)
		assert.LessOrEqual(t, named(r, "overload-recovered")[2].P50, 1000.0)
		var out bytes.Buffer
		r.Write(&out)
		assert.Contains(t, out.String(), "10 times the capacity: answers, as a part of the capacity")
	})
}

// A size that fails, or takes too long, is reported; the next one is measured.
func TestRun_ContinuesAfterAFailedSize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		starts := 0
		cfg := inMemory(0)
		cfg.Only, cfg.MaxRegistrations, cfg.Limit = []string{"registrations"}, 100_000, time.Minute
		cfg.Another = func(context.Context, bool) (testbed.RealCluster, error) {
			switch starts++; starts {
			case 1:
				return nil, errors.New("no port")
			case 3:
				return memoryCluster{closes: errors.New("does not end")}, nil
			}
			return memoryCluster{}, nil
		}
		cfg.newPool = func(client.Config) *load.Pool {
			if starts == 2 {
				return (&memoryRegistry{delay: time.Hour}).pool() // stores nothing in time
			}
			return (&memoryRegistry{delay: time.Millisecond}).pool()
		}
		began := time.Now()
		r, err := Run(t.Context(), cfg)
		for _, want := range []string{"registrations  1 connections, 10,000 registrations: start: no port", "more than the limit of 1m0s", "does not end"} {
			assert.ErrorContains(t, err, want)
		}
		assert.Len(t, named(r, "registrations-rate"), 4, "what was measured before a failure stays")
		assert.Less(t, time.Since(began), 2*time.Minute)
	})
}

func TestRun_EndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		r, err := Run(ctx, inMemory(time.Hour))
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Empty(t, named(r, "registrations-rate"))
	})
}

func TestSizes_AreBounded(t *testing.T) {
	assert.Equal(t, []int{10, 100}, within(999, 10, 100, 1000))
	assert.Equal(t, []int{10, 100, 1000}, within(0, 10, 100, 1000), "no bound")
	assert.Equal(t, []int{7}, within(7, 10, 100, 1000), "the bound itself if all are larger")
	assert.Equal(t, []size{{connections: 100}}, manyConnections(Config{MaxConnections: 100}))
}

func TestStore_ComparesRatesOfAsManyConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := inMemory(time.Millisecond)
		cfg.Only = []string{"registrations"}
		cfg = cfg.withDefaults()
		r := &run{Config: cfg, figures: &[]Figure{}, rates: map[int]float64{1: 1e9}}
		m := measurement{name: "registrations", sizes: manyRegistrations, take: counted((*run).store)}
		for _, s := range []size{{connections: 1, registrations: 2000}, {connections: 20, registrations: 2000}} {
			require.NoError(t, r.measure(t.Context(), m, s))
		}
		ratios := named(Report{Figures: *r.figures}, "registrations-ratio")
		require.Len(t, ratios, 1, "the rate of 20 connections is not known")
		assert.Equal(t, ">= 0.85", ratios[0].Target)
		assert.False(t, *ratios[0].Reached)
	})
}

func TestServeAll_CountsFromTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		served := load.NewDist()
		pool := (&memoryRegistry{pushAfter: time.Second}).pool()
		require.NoError(t, pool.ServeAll(t.Context(), "x", 20, 20, served.Add))
		assert.Len(t, pool.Clients, 20)
		v := served.Values()
		assert.Equal(t, 20, v.N)
		assert.InEpsilon(t, 1000, v.Max, 0.01, "all wait at the same time")
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		assert.ErrorContains(t, pool.ServeAll(ctx, "y", 20, 20, served.Add), "20 of 20 connections had no push")
		time.Sleep(time.Second)
		synctest.Wait()
	})
}
