package scenario_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/testbed"
	"conclave/testbed/check"
	"conclave/testbed/scenario"
)

// visited is a cluster and a recorder that know how long each client stayed, and when
// something was changed.
type visited struct {
	*fakeCluster
	mu    sync.Mutex // guards the rest
	stays map[string]*stay
	last  time.Time // when a client published or withdrew
}

type stay struct{ from, to time.Time }

func newVisited(t *testing.T, of scenario.Load, b *fakeCluster) (*visited, *scenario.Traffic) {
	require.NoError(t, b.Open(t.Context(), testbed.Size{}, nil))
	v := &visited{fakeCluster: b, stays: map[string]*stay{}}
	traffic := scenario.NewTraffic(of, v, v, 7)
	ctx, end := context.WithCancel(t.Context())
	t.Cleanup(func() { end(); traffic.Wait() })
	require.NoError(t, traffic.Begin(ctx))
	return v, traffic
}

func (v *visited) Op(o check.Op) {
	if o.Kind == check.OpPublish || o.Kind == check.OpWithdraw {
		v.mu.Lock()
		defer v.mu.Unlock()
		v.last = time.Now()
	}
}

func (v *visited) Client(name string) (testbed.Client, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.stays[name] = &stay{from: time.Now()}
	return visitor{fakeClient{v.fakeCluster}, v, name}, nil
}

// present returns the clients of a kind that have not ended.
func (v *visited) present(kind string) (names []string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for name, s := range v.stays {
		if strings.HasPrefix(name, kind) && s.to.IsZero() {
			names = append(names, name)
		}
	}
	return names
}

// arrived returns how many clients there have been.
func (v *visited) arrived() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return len(v.stays)
}

// quiet returns how long nothing was changed.
func (v *visited) quiet() time.Duration {
	v.mu.Lock()
	defer v.mu.Unlock()
	return time.Since(v.last)
}

type visitor struct {
	fakeClient
	of   *visited
	name string
}

func (c visitor) Close(context.Context) error {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	c.of.stays[c.name].to = time.Now()
	return nil
}

func TestTraffic_ChangesNothingWhilePaused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v, traffic := newVisited(t, scenario.Load{Clients: 2, Names: 3, Every: 100 * time.Millisecond, Guests: 250 * time.Millisecond, Readers: time.Second, Patient: true}, &fakeCluster{})
		time.Sleep(10 * time.Second)
		for range 2 {
			require.NoError(t, traffic.Pause(t.Context()))
			began, here := time.Now(), v.arrived()
			time.Sleep(20 * time.Second)
			assert.GreaterOrEqual(t, v.quiet(), time.Since(began))
			assert.LessOrEqual(t, v.arrived(), here, "no client arrives")
			traffic.Resume()
			time.Sleep(5 * time.Second)
			assert.Less(t, v.quiet(), time.Second)
			assert.Greater(t, v.arrived(), here)
		}
	})
}

func TestTraffic_GuestsLeaveWhenAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v, traffic := newVisited(t, scenario.Load{Clients: 1, Names: 3, Guests: 250 * time.Millisecond}, &fakeCluster{})
		time.Sleep(10 * time.Second)
		here := v.present("guest")
		assert.Greater(t, len(here), 5)
		traffic.Leave()
		time.Sleep(800 * time.Millisecond)
		now := v.present("guest")
		for _, name := range here {
			assert.NotContains(t, now, name)
		}
	})
}

func TestTraffic_PatientReadersWaitForEveryList(t *testing.T) {
	for name, c := range map[string]struct {
		silentAfter, least, most time.Duration
	}{
		"with lists":    {0, time.Second, 5 * time.Second},
		"without lists": {time.Nanosecond, 25 * time.Second, 30 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				v, _ := newVisited(t, scenario.Load{Names: 3, Readers: 5 * time.Second, Patient: true}, &fakeCluster{silentAfter: c.silentAfter})
				time.Sleep(time.Minute)
				v.mu.Lock()
				defer v.mu.Unlock()
				ended := 0
				for _, s := range v.stays {
					if !s.to.IsZero() {
						ended++
						assert.GreaterOrEqual(t, s.to.Sub(s.from), c.least)
						assert.LessOrEqual(t, s.to.Sub(s.from), c.most)
					}
				}
				assert.Greater(t, ended, 2)
			})
		})
	}
}
