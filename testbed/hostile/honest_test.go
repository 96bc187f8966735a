package hostile_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/testbed/load"
	"conclave/testbed/outside"
)

// client starts an honest client of one session.
func (w *world) client(name, session string) *outside.Client {
	cfg, err := w.cluster.ClientConfig(name)
	require.NoError(w.t, err)
	cfg.Sessions, cfg.Token, cfg.TokenFrom = []string{w.at[session]}, shopToken, nil
	c, err := outside.NewClient(cfg)
	require.NoError(w.t, err)
	w.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = c.Close(ctx) // the cluster may have ended
	})
	return c
}

// work makes the honest clients register, and publish and read until ctx ends.
func (w *world) work(ctx context.Context) (wait func()) {
	for _, session := range []string{"session-1", "session-2"} {
		w.writers, w.readers = append(w.writers, w.client("writer of "+session, session)), append(w.readers, w.client("reader of "+session, session))
	}
	stored, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	require.NoError(w.t, w.lists.Publish(stored, "honest", honest, honest, w.writers[0], w.writers[1]))
	for i := range clocks {
		p, err := w.writers[i%2].Client.Publish(stored, fmt.Sprint("clock-", i), []string{"0"})
		require.NoError(w.t, err)
		require.NoError(w.t, p.Stored(stored))
		w.clocks = append(w.clocks, p)
	}

	var all sync.WaitGroup
	for _, r := range w.readers {
		require.NoError(w.t, w.lists.Watch(r, r.Name(), "honest", 1))
		for i := range clocks {
			require.NoError(w.t, r.Subscribe(fmt.Sprint("clock-", i), w.clockShown))
		}
	}
	all.Go(func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				for _, p := range w.clocks {
					_ = p.Update([]string{strconv.FormatInt(time.Now().UnixNano(), 10)}) // Err is checked after each attack
				}
			case <-ctx.Done():
				return
			}
		}
	})
	all.Go(func() {
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				w.mu.Lock()
				for name, pid := range w.pids {
					w.most[name] = max(w.most[name], outside.Resident(pid))
				}
				w.mu.Unlock()
			case <-ctx.Done():
				return
			}
		}
	})
	for port, ask := range w.callers() {
		all.Go(func() { w.call(ctx, port, ask) })
	}
	return all.Wait
}

// clockShown takes the push of a clock.
func (w *world) clockShown(d conclave.Datum) {
	if len(d.Values) != 1 {
		return
	}
	if sent, err := strconv.ParseInt(d.Values[0], 10, 64); err == nil && sent > 0 {
		w.latency.note(time.Duration(time.Now().UnixNano() - sent))
	}
}

// large registers a list of 3 MB, as an honest publisher may.
func large(ctx context.Context, t *testing.T, w *world) {
	if w.hasLarge {
		return
	}
	w.hasLarge = true
	ctx, end := lasting(ctx, 30*time.Second)
	defer end()
	for i := range 50 {
		p, err := w.writers[0].Client.Publish(ctx, "large", []string{fmt.Sprint(i, strings.Repeat("l", 60<<10))})
		require.NoError(t, err)
		require.NoError(t, p.Stored(ctx))
	}
}

// complete checks that a new subscriber sees everything that was registered.
func (w *world) complete(t *testing.T) {
	for _, session := range []string{"session-1", "session-2"} {
		s, err := w.client("late reader", session).Client.Subscribe(load.DataID("honest", 0))
		require.NoError(t, err)
		assert.Eventually(t, func() bool { d, ok := s.Last(); return ok && len(d.Values) == honest }, 10*time.Second, 20*time.Millisecond, session)
	}
}
