package serve_test

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/testbed/simulated/simnet"
	"conclave/wire/serve"
)

// One address cannot take the places of all, and gets its own back.
func TestPlaces_OfConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := simnet.New(1)
		inner, err := network.Host("node").Listen(t.Context(), "tcp", ":1")
		require.NoError(t, err)
		places := serve.NewPlaces(4, 3)
		ln := places.Listener(inner)
		accepted := make(chan net.Conn, 10)
		done := make(chan struct{})
		go func() {
			defer close(done)
			for {
				conn, err := ln.Accept()
				if err != nil {
					return
				}
				accepted <- conn
			}
		}()
		dial := func(host string) net.Conn {
			conn, err := network.Host(host).DialContext(t.Context(), "tcp", inner.Addr().String())
			require.NoError(t, err)
			synctest.Wait()
			return conn
		}
		closed := func(conn net.Conn) {
			_, err := conn.Read(make([]byte, 1))
			assert.ErrorIs(t, err, io.EOF)
		}
		for range 3 {
			dial("hostile")
		}
		closed(dial("hostile"))
		assert.Len(t, accepted, 3)
		dial("honest")
		assert.Len(t, accepted, 4, "another address has places left")
		closed(dial("other")) // there are none in all
		assert.EqualValues(t, 2, places.Refused())
		first := <-accepted
		require.NoError(t, first.Close())
		_ = first.Close() // twice
		dial("hostile")
		assert.Len(t, accepted, 4)
		closed(dial("other"))
		require.NoError(t, ln.Close())
		<-done
	})
}

func TestPlaces_OfRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		h := serve.NewPlaces(10, 2).Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
		answers := make(chan *httptest.ResponseRecorder, 10)
		ask := func(from string) {
			w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/healthz", nil)
			r.RemoteAddr = from
			h.ServeHTTP(w, r)
			answers <- w
		}
		for _, from := range []string{"10.0.0.1:1", "10.0.0.1:2", "10.0.0.2:1"} {
			go ask(from)
		}
		synctest.Wait()
		go ask("10.0.0.1:3")
		synctest.Wait()
		require.Len(t, answers, 1)
		refused := <-answers
		assert.Equal(t, http.StatusServiceUnavailable, refused.Code)
		assert.Contains(t, refused.Body.String(), "there are 2 requests from 10.0.0.1")
		close(release)
		synctest.Wait()
		assert.Len(t, answers, 3)
	})
}
