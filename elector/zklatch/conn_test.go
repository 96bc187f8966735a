package zklatch_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/elector/zklatch"
	"conclave/sim/simnet"
)

// A proof of life is from before the request was sent, however late its answer comes;
// and pings alone bring new ones, three in a timeout.
func TestConnHeardIsFromBeforeTheRequest(t *testing.T) {
	wire(t, func(t *testing.T, b *bench) {
		const way = 250 * time.Millisecond
		b.network.Shape("nodes", "zk", simnet.Shape{Latency: way})
		b.network.Shape("zk", "nodes", simnet.Shape{Latency: way})
		u := b.user()
		for range 10 {
			began := time.Now()
			_, err := u.Children(t.Context(), "/")
			require.NoError(t, err)
			s, _ := u.Session()
			assert.GreaterOrEqual(t, time.Since(s.Heard), 2*way, "there and back")
			assert.False(t, s.Heard.Before(began))
			assert.Equal(t, s.Heard.Add(timeout), s.Until())

			time.Sleep(timeout)
			s, _ = u.Session()
			assert.Less(t, time.Since(s.Heard), timeout/2+2*way, "pings are answered")
		}
	})
}

// The timeout is what the servers grant, and not what was asked for.
func TestConnTimeoutIsTheGrantedOne(t *testing.T) {
	wire(t, func(t *testing.T, b *bench) {
		b.server.Limits(time.Second, 2*time.Second)
		u := b.user()
		b.until("a session", func() bool { s, _ := u.Session(); return s.Connected() })
		s, _ := u.Session()
		assert.Equal(t, 2*time.Second, s.Timeout)
	})
}

// A request that was left over from the last connection goes out on the next one, maybe
// before the watches were asked for again. Its answer must not hide what has changed
// meanwhile. (The race detector sees it when it is let through.)
func TestConnALeftOverRequestHidesNoChange(t *testing.T) {
	wire(t, func(t *testing.T, b *bench) {
		u, other := b.user(), b.user()
		path := b.top(other) + "/watched"
		_, err := other.Create(t.Context(), path, nil, zklatch.Persistent)
		require.NoError(t, err)
		for range 20 {
			_, _, watch, err := u.GetW(t.Context(), path)
			require.NoError(t, err)
			release := u.cable.Stall()
			var group sync.WaitGroup
			for range 3 { // the first waits for the wire, the others behind it
				group.Go(func() { _, _, _ = u.Get(t.Context(), path) })
			}
			synctest.Wait()
			_, err = other.Set(t.Context(), path, []byte("changed"), zklatch.AnyVersion)
			require.NoError(t, err)
			u.cable.Break()
			synctest.Wait()
			release()
			assert.Equal(t, zklatch.Event{Type: zklatch.NodeChanged, Path: path}, <-watch)
			group.Wait()
		}
	})
}
