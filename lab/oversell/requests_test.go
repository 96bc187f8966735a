package oversell_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	_ "conclave/internal/bubble"
	"conclave/lab/oversell"
)

// pipes is a listener of one connection in memory.
type pipes struct {
	conns  chan net.Conn
	closed context.Context
	close  context.CancelFunc
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed.Done():
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { p.close(); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

// A handler outlives its server's Close: the counts and the row of the goods are
// final only when it has returned.
func TestRequests_EndWaitsForHandlersThatOutliveTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, release, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
		handlers := oversell.NewRequests(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			close(began)
			<-release
		}))
		listener := &pipes{conns: make(chan net.Conn, 1)}
		listener.closed, listener.close = context.WithCancel(t.Context())
		server := &http.Server{Handler: handlers}
		served := make(chan error, 1)
		go func() { served <- server.Serve(listener) }()
		here, there := net.Pipe()
		listener.conns <- there
		go func() {
			_, _ = io.WriteString(here, "GET / HTTP/1.1\r\nHost: shop\r\n\r\n")
			_, _ = io.Copy(io.Discard, bufio.NewReader(here))
		}()
		<-began
		require.NoError(t, server.Close())
		assert.ErrorIs(t, <-served, http.ErrServerClosed)
		go func() { handlers.End(); close(ended) }()
		synctest.Wait()
		select {
		case <-ended:
			t.Error("ended with a handler in progress")
		default:
		}
		late := httptest.NewRecorder()
		handlers.ServeHTTP(late, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody))
		assert.Equal(t, http.StatusServiceUnavailable, late.Code)
		close(release)
		<-ended
		handlers.End()
	})
}
