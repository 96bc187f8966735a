package wire_test

import (
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/testbed/simulated/simnet"
	"conclave/wire"
	wirev1 "conclave/wire/v1"
)

// late is a network on which a dial completes only when the test allows it,
// even if the caller has given up.
type late struct {
	wire.Network
	dialling, allowed chan struct{}
	closed            chan error // the error that ends a read from the connection
}

func (l *late) DialContext(_ context.Context, network, address string) (net.Conn, error) {
	close(l.dialling)
	<-l.allowed
	conn, err := l.Network.DialContext(context.Background(), network, address)
	if err == nil {
		go func() {
			_, err := conn.Read(make([]byte, 1))
			l.closed <- err
		}()
	}
	return conn, err
}

// A call gives up while its connection is being dialled. If the dial completes
// after Close has begun, the connection must be closed, or its goroutines and its
// socket would leak.
func TestPeers_DialThatCompletesAfterCloseIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := simnet.New(1)
		b, err := n.Host("b").Listen(t.Context(), "tcp", ":80")
		require.NoError(t, err)
		defer b.Close()
		l := &late{Network: n.Host("a"), dialling: make(chan struct{}), allowed: make(chan struct{}), closed: make(chan error, 1)}
		peers := wire.NewPeers(l, &wire.Interceptor{}, wire.PingTimeout)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = peers.Node(b.Addr().String()).Hello(ctx, connect.NewRequest(&wirev1.HelloRequest{}))
		require.Error(t, err)
		<-l.dialling
		ended := make(chan struct{})
		go func() { peers.Close(); close(ended) }()
		synctest.Wait()
		close(l.allowed)
		assert.Error(t, <-l.closed)
		<-ended
	})
}

// unanswered is a network on which no dial is answered.
type unanswered struct{ wire.Network }

func (unanswered) DialContext(ctx context.Context, _, _ string) (net.Conn, error) {
	<-ctx.Done()
	time.Sleep(time.Millisecond) // its last steps
	return nil, ctx.Err()
}

// net/http goes on dialling when the caller has given up: Close ends that, and waits
// for it. Otherwise a node that has ended still dials.
func TestPeersClose_JoinsDials(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := wire.NewPeers(unanswered{}, &wire.Interceptor{}, wire.PingTimeout)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		assert.ErrorIs(t, p.Dial(ctx, "a:1"), context.DeadlineExceeded)
		got := make(chan error)
		go func() { got <- p.Dial(t.Context(), "a:1") }()
		synctest.Wait()
		began := time.Now()
		p.Close()
		assert.Equal(t, time.Millisecond, time.Since(began), "the dial has ended")
		require.ErrorIs(t, <-got, context.Canceled)
		require.ErrorIs(t, p.Dial(t.Context(), "a:1"), net.ErrClosed)
	})
}
