package session

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/session/registry"
	wirev1 "conclave/wire/v1"
)

// New registrations wait until data has stored earlier ones; what replaces
// something does not, and the end of the stream ends the wait.
func TestRoom_NewRegistrationsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		r := registry.New(time.Hour, 0, nil)
		r.Resize(1, now)
		r.Adopt(0, conclave.Epoch{Term: 1}, "data-1", now)
		owner := &registry.Owner{}
		owner.Renew(now, time.Hour)
		_, err := r.Put(owner, conclave.Publisher{ID: "held", Data: conclave.DataInfoID{DataID: "a", Instance: "b", Group: "c"}, Version: 1, Values: []string{"value"}}, now)
		require.NoError(t, err)
		m := &room{registry: &locked{Registry: r}, limit: r.Unsent(), waits: prometheus.NewCounter(prometheus.CounterOpts{})}
		var extended atomic.Int32
		begin := func(ctx context.Context, p *wirev1.Publisher) chan bool {
			done := make(chan bool, 1)
			go func() {
				m.wait(ctx, []*wirev1.Publisher{p}, func() { extended.Add(1) })
				done <- true
			}()
			synctest.Wait()
			return done
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		require.Len(t, begin(ctx, &wirev1.Publisher{Id: "held", Version: 2}), 1)
		require.Len(t, begin(ctx, &wirev1.Publisher{Id: "gone", Version: 2, Withdrawn: true}), 1)
		waits, ends := begin(t.Context(), &wirev1.Publisher{Id: "new", Version: 1}), begin(ctx, &wirev1.Publisher{Id: "other", Version: 1})
		time.Sleep(1500 * time.Millisecond)
		synctest.Wait()
		assert.EqualValues(t, 2, extended.Load(), "the streams stay open")
		assert.Empty(t, waits)
		cancel()
		synctest.Wait()
		require.Len(t, ends, 1)
		batch := r.Take(0, "data-1", registry.Order(0)[2], 1<<20, 10, time.Now())
		_, counted := m.registry.Settle(batch)
		require.True(t, counted)
		synctest.Wait()
		assert.Empty(t, waits)
		m.settled.Notify()
		synctest.Wait()
		assert.Len(t, waits, 1)
	})
}
