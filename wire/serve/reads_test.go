package serve_test

import (
	"bytes"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/wire/serve"
)

// reads is a router whose GET /v1/things calls handle.
func reads(handle http.HandlerFunc) http.Handler {
	r := serve.NewRouter(serve.RouterConfig{
		Node: d1, Role: conclave.RoleData, Metrics: prometheus.NewRegistry(), Events: serve.NewEvents("d", time.Now),
		Ready: func() (bool, []string) { return true, nil },
	})
	r.HandleFunc("/v1/things", handle).Methods(http.MethodGet)
	r.HandleFunc("/v1/things", func(http.ResponseWriter, *http.Request) {}).Methods(http.MethodPost)
	return r
}

// However many read lists, probes and acts are answered, and later readers, too.
func TestReads_AreLimitedAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		r := reads(func(http.ResponseWriter, *http.Request) { <-release })
		ask := func(method, path string) *httptest.ResponseRecorder {
			w := httptest.NewRecorder()
			r.ServeHTTP(w, httptest.NewRequest(method, "http://127.0.0.1:9600"+path, nil))
			return w
		}
		answers := make(chan *httptest.ResponseRecorder, 400)
		for range 400 {
			go func() { answers <- ask(http.MethodGet, "/v1/things") }()
		}
		synctest.Wait()
		assert.Len(t, answers, 400-64)
		refused := <-answers
		assert.Equal(t, http.StatusServiceUnavailable, refused.Code)
		assert.Equal(t, "1", refused.Header().Get("Retry-After"))
		for path, method := range map[string]string{"/healthz": http.MethodGet, "/readyz": http.MethodGet, "/metrics": http.MethodGet, "/v1/things": http.MethodPost} {
			assert.Equal(t, http.StatusOK, ask(method, path).Code, path)
		}
		close(release)
		synctest.Wait()
		assert.Equal(t, http.StatusOK, ask(http.MethodGet, "/v1/things").Code)
	})
}

// Requests for metrics need no token. They are answered a few at a time.
func TestReads_ScrapesAreLimitedAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release, metrics := make(chan struct{}), prometheus.NewRegistry()
		metrics.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "slow"}, func() float64 { <-release; return 1 }))
		r := serve.NewRouter(serve.RouterConfig{Node: d1, Role: conclave.RoleData, Metrics: metrics, Events: serve.NewEvents("d", time.Now)})
		answers := make(chan int, 10)
		for range 10 {
			go func() {
				w := httptest.NewRecorder()
				r.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://127.0.0.1:9600/metrics", nil))
				answers <- w.Code
			}()
		}
		synctest.Wait()
		require.Len(t, answers, 6)
		assert.Equal(t, http.StatusServiceUnavailable, <-answers)
		close(release)
		synctest.Wait()
		assert.Len(t, answers, 9)
	})
}

// A reader that does not read its answer keeps its place, and a small answer its
// connection, for a limited time.
func TestReads_SlowReaderIsBrokenOff(t *testing.T) {
	for name, size := range map[string]int{"large": 1 << 20, "small": 1} {
		t.Run(name, func(t *testing.T) { testSlowReader(t, size) })
	}
}

func testSlowReader(t *testing.T, size int) {
	synctest.Test(t, func(t *testing.T) {
		began, ended := time.Now(), make(chan time.Time, 1)
		ln := &onePipe{conns: make(chan net.Conn, 1), closed: make(chan struct{})}
		client, conn := net.Pipe()
		ln.conns <- conn
		server := &http.Server{Handler: reads(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write(bytes.Repeat([]byte("x"), size))
		}), ConnState: func(_ net.Conn, s http.ConnState) {
			if s == http.StateClosed {
				ended <- time.Now()
			}
		}}
		served := make(chan struct{})
		go func() { defer close(served); _ = server.Serve(ln) }()
		_, err := client.Write([]byte("GET /v1/things HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"))
		require.NoError(t, err)
		time.Sleep(time.Minute)
		select {
		case at := <-ended:
			assert.GreaterOrEqual(t, at.Sub(began), 10*time.Second)
			assert.Less(t, at.Sub(began), 11*time.Second, "the server lingers for half a second")
		default:
			assert.Fail(t, "the connection is kept")
		}
		require.NoError(t, server.Close())
		_ = client.Close()
		<-served
	})
}

// onePipe is a listener for connections in memory.
type onePipe struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (o *onePipe) Accept() (net.Conn, error) {
	select {
	case c := <-o.conns:
		return c, nil
	case <-o.closed:
		return nil, net.ErrClosed
	}
}

func (o *onePipe) Close() error   { close(o.closed); return nil }
func (o *onePipe) Addr() net.Addr { return &net.TCPAddr{} }
