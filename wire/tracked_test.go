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

	"conclave/sim/simnet"
	"conclave/wire"
	wirev1 "conclave/wire/v1"
)

// late is a network on which a dial ends when it is let, whoever waits for it.
type late struct {
	wire.Network
	dialling, let chan struct{}
	closed        chan error // what a read from the connection says in the end
}

func (l *late) DialContext(_ context.Context, network, address string) (net.Conn, error) {
	close(l.dialling)
	<-l.let
	conn, err := l.Network.DialContext(context.Background(), network, address)
	if err == nil {
		go func() {
			_, err := conn.Read(make([]byte, 1))
			l.closed <- err
		}()
	}
	return conn, err
}

// A call gives up while its connection is being dialled; what the dial brings
// after Close is closed, or its goroutines and its socket would stay for ever.
func TestADialThatEndsAfterCloseLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := simnet.New(1)
		b, stop := start(t, n, "b", "")
		defer stop()
		l := &late{Network: n.Host("a"), dialling: make(chan struct{}), let: make(chan struct{}), closed: make(chan error, 1)}
		peers := wire.NewPeers(l, &wire.Interceptor{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := peers.Node(b.address).Hello(ctx, connect.NewRequest(&wirev1.HelloRequest{}))
		require.Error(t, err)
		<-l.dialling
		peers.Close()
		close(l.let)
		assert.Error(t, <-l.closed)
	})
}
