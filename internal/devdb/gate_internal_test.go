package devdb

import (
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A COMMIT that arrives when its transaction was evicted must not be executed:
// the rollback has begun.
func TestGateEnter_EvictedTransactionFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, remote := net.Pipe()
		defer remote.Close()
		g := newGate(2 * time.Second)
		idler := &client{id: 1, log: hclog.NewNullLogger(), socket: &socket{Conn: server, listener: newListener(nil), closed: make(chan struct{})}}
		next := &client{id: 2, socket: &socket{closed: make(chan struct{})}}
		require.NoError(t, g.enter(idler))
		g.pause(idler)
		entered := make(chan error, 1)
		go func() { entered <- g.enter(next) }()
		time.Sleep(999 * time.Millisecond)
		synctest.Wait()
		require.NoError(t, g.enter(idler), "a statement before the limit")
		g.pause(idler)
		time.Sleep(time.Second)
		synctest.Wait()
		assert.True(t, isClosed(idler.socket.closed), "the limit has passed")
		assert.Equal(t, errEvicted, g.enter(idler))
		assert.Empty(t, entered, "no statement enters before the rollback")
		g.leave(idler)
		assert.NoError(t, <-entered)
	})
}
