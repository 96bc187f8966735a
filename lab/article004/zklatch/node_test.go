package zklatch_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/lab/article004/zklatch"
)

// A wait in a queue, for a single node, and a holder that can be asked set one watch,
// however often the connection breaks.
func TestWatch_OfAWaitOutlastsConnections(t *testing.T) {
	for name, wait := range map[string]func(b *bench, holder, waiter *user) (done chan error, release func()){
		"mutex": func(b *bench, holder, waiter *user) (chan error, func()) {
			held, done := holder.Mutex(b.path+"/mutex", nil), make(chan error, 1)
			require.NoError(b.t, held.Acquire(b.limited()))
			go func() { done <- waiter.Mutex(b.path+"/mutex", nil).Acquire(b.limited()) }()
			return done, func() { require.NoError(b.t, held.Release(b.limited())) }
		},
		"single node": func(b *bench, holder, waiter *user) (chan error, func()) {
			_, err := holder.Create(b.limited(), b.path, nil, zklatch.Persistent)
			require.NoError(b.t, err)
			held, done := holder.SingleNode(b.path+"/single"), make(chan error, 1)
			require.NoError(b.t, held.Acquire(b.limited()))
			go func() { done <- waiter.SingleNode(b.path + "/single").Acquire(b.limited()) }()
			return done, func() { require.NoError(b.t, held.Release(b.limited())) }
		},
		"revocation": func(b *bench, holder, waiter *user) (chan error, func()) {
			held, done := waiter.Mutex(b.path+"/asked", nil), make(chan error, 1)
			held.MakeRevocable(func(*zklatch.Mutex) { done <- nil })
			require.NoError(b.t, held.Acquire(b.limited()))
			return done, func() {
				paths, err := held.Participants(b.limited())
				require.NoError(b.t, err)
				require.NoError(b.t, holder.AttemptRevoke(b.limited(), paths[0].Path))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			wire(t, func(t *testing.T, b *bench) {
				holder, waiter := b.user(), b.user()
				done, release := wait(b, holder, waiter)
				for range 10 {
					synctest.Wait()
					waiter.cable.Cut()
					synctest.Wait()
					waiter.cable.Mend()
					b.until("a connection", func() bool { s, _ := waiter.Session(); return s.Connected() })
				}
				synctest.Wait()
				assert.Equal(t, 1, b.watching())
				release()
				require.NoError(t, next(b, done))
			})
		})
	}
}
