package live

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/internal/trace"
	"conclave/testbed"
	"conclave/testbed/check"
)

// gate is a cluster whose nodes can be held. A kill ends that.
type gate struct {
	testbed.Cluster

	mu   sync.Mutex // guards held
	held map[string]testbed.Action
}

func (g *gate) Do(_ context.Context, a testbed.Action) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch a.Verb {
	case testbed.Hold:
		g.held[a.Key()] = a
	case testbed.Release:
		delete(g.held, a.Key())
	case testbed.Kill:
		for key, hold := range g.held {
			if hold.Node == a.Node || a.Node == testbed.Database && hold.Point == trace.Landing {
				delete(g.held, key)
			}
		}
	}
	return nil
}

// keys are those of the holds that last, sorted.
func (g *gate) keys() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return sortedKeys(g.held)
}

func (g *gate) Capabilities() *testbed.Capabilities { return &testbed.Capabilities{} }

// holds returns a source that can be acted on, and its cluster.
func holds(ctx context.Context) (*Source, *gate) {
	g := &gate{held: map[string]testbed.Action{}}
	s := New(Config{Cluster: g, HTTP: http.DefaultClient})
	s.record.rec, s.seen, s.work = check.NewRecorder("test", testbed.Size{}), &sight{}, ctx
	return s, g
}

func hold(node string, point trace.Kind) testbed.Action {
	return testbed.Action{Verb: testbed.Hold, Node: node, Point: point}
}

// openHolds are the holds of which the history has the beginning and no end. A release of a
// node that is not held fails the test.
func (s *Source) openHolds(t *testing.T) []string {
	open := map[string]bool{}
	h, _ := s.record.rec.SoFar(false, nil)
	for _, e := range h.Entries {
		switch f := e.Fault; {
		case f == nil:
		case f.Verb == testbed.Hold:
			open[f.Key()] = true
		case f.Verb == testbed.Release:
			assert.True(t, open[f.Key()], "%s: it is not held", f.Action)
			delete(open, f.Key())
		}
	}
	return sortedKeys(open)
}

func sortedKeys[V any](m map[string]V) []string {
	out := []string{}
	for key := range m {
		out = append(out, key)
	}
	slices.Sort(out)
	return out
}

// What lasts, what the history has, and what the cluster does are one, in whatever order
// holds, their ends, heal and kill come.
func TestInject_HoldsHealsAndKillsInEveryOrder(t *testing.T) {
	acts := []struct {
		what string
		do   func(s *Source, ctx context.Context) error
	}{
		{"hold", func(s *Source, _ context.Context) error { return s.Inject(hold("meta-1", trace.Landing)) }},
		{"hold again", func(s *Source, _ context.Context) error { return s.Inject(hold("meta-1", trace.Landing)) }},
		{"hold another", func(s *Source, _ context.Context) error { return s.Inject(hold("meta-2", trace.Landing)) }},
		{"heal", (*Source).heal},
		{"kill", func(s *Source, ctx context.Context) error {
			return s.Do(ctx, testbed.Action{Verb: testbed.Kill, Node: "meta-1"})
		}},
		{"kill db", func(s *Source, ctx context.Context) error {
			return s.Do(ctx, testbed.Action{Verb: testbed.Kill, Node: testbed.Database})
		}},
	}
	orders := 0
	var play func(done, left []int)
	play = func(done, left []int) {
		for i, n := range left {
			play(append(slices.Clone(done), n), slices.Delete(slices.Clone(left), i, i+1))
		}
		if len(left) > 0 {
			return
		}
		orders++
		synctest.Test(t, func(t *testing.T) {
			s, g := holds(t.Context())
			same := func() {
				synctest.Wait()
				active := map[string]bool{}
				for _, a := range s.active.List() {
					if a.Verb == testbed.Hold {
						active[a.Key()] = true
					}
				}
				require.Equal(t, g.keys(), sortedKeys(active), "%v", done)
				require.Equal(t, g.keys(), s.openHolds(t), "%v", done)
			}
			for _, n := range done {
				require.NoError(t, acts[n].do(s, t.Context()))
				same()
			}
			require.NoError(t, s.heal(t.Context()))
			same()
			assert.Empty(t, g.keys())
			s.running.Wait()
		})
	}
	play(nil, []int{0, 1, 2, 3, 4, 5})
	assert.Equal(t, 720, orders)
}

// The failure of a scenario is not what led to something that a viewer does after it.
func TestInject_ClearsTheFailureOfAScenario(t *testing.T) {
	for _, a := range []testbed.Action{hold("meta-1", trace.Landing), {Verb: testbed.Unguard}} {
		synctest.Test(t, func(t *testing.T) {
			s, _ := holds(t.Context())
			s.failed = failure{time.Now(), "f01", "no leader"}
			id, v := s.Violation(time.Now())
			assert.Equal(t, "f01 no leader", id+" "+v.What)
			require.NoError(t, s.Inject(a))
			id, v = s.Violation(time.Now())
			assert.Empty(t, id+v.What)
			s.running.Wait()
		})
	}
}
