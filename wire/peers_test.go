package wire

import (
	"context"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// pipes is a network of one server, without buffers of its own.
type pipes struct{ accepted chan net.Conn }

func (p pipes) Listen(context.Context, string, string) (net.Listener, error) { return p, nil }

func (p pipes) DialContext(context.Context, string, string) (net.Conn, error) {
	client, server := net.Pipe()
	p.accepted <- server
	return client, nil
}

func (p pipes) Accept() (net.Conn, error) {
	c, open := <-p.accepted
	if !open {
		return nil, net.ErrClosed
	}
	return c, nil
}

func (p pipes) Close() error   { close(p.accepted); return nil }
func (p pipes) Addr() net.Addr { return &net.TCPAddr{} }

// What is on its way on a stream that its receiver does not read is bounded, since
// the answers to pings wait behind it.
func TestHTTP2_UnreadStreamIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := pipes{make(chan net.Conn)}
		var written atomic.Int64
		protocols := new(http.Protocols)
		protocols.SetUnencryptedHTTP2(true)
		server := &http.Server{Protocols: protocols, HTTP2: HTTP2(PingTimeout), Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			for part := make([]byte, 16<<10); ; written.Add(int64(len(part))) {
				if _, err := w.Write(part); err != nil {
					return
				}
			}
		})}
		go func() { _ = server.Serve(network) }()
		peers := NewPeers(network, &Interceptor{}, PingTimeout)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://node:1/", nil)
		require.NoError(t, err)
		res, err := peers.HTTP().Do(req)
		require.NoError(t, err)
		synctest.Wait()
		assert.LessOrEqual(t, written.Load(), int64(maxUnread+64<<10))
		assert.GreaterOrEqual(t, written.Load(), int64(maxUnread))
		require.NoError(t, res.Body.Close())
		peers.Close()
		time.Sleep(time.Second)
		require.NoError(t, server.Close())
	})
}
