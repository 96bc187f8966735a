package serve_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"

	"conclave"
	"conclave/wire/serve"
)

// A redirect to the clean path would make a GET of a PUT.
func TestRouter_PathsThatAreNotCleanAreNotFound(t *testing.T) {
	r := serve.NewRouter(serve.RouterConfig{
		Node: d1, Role: conclave.RoleData, Metrics: prometheus.NewRegistry(), Events: serve.NewEvents("d", time.Now),
		Ready: func() (bool, []string) { return true, nil },
	})
	acted := 0
	r.HandleFunc("/v1/things/{name}", func(http.ResponseWriter, *http.Request) { acted++ }).Methods(http.MethodPut)
	for path, want := range map[string]int{
		"/v1/things/a": http.StatusOK, "//v1/things/a": http.StatusNotFound, "/v1//things/a": http.StatusNotFound,
		"/v1/x/../things/a": http.StatusNotFound, "/v1/./things/a": http.StatusNotFound, "/v1/things/a/": http.StatusNotFound,
	} {
		w := httptest.NewRecorder()
		req := httptest.NewRequest(http.MethodPut, "http://127.0.0.1:9600/", nil)
		req.URL.Path = path
		r.ServeHTTP(w, req)
		assert.Equal(t, want, w.Code, path)
	}
	assert.Equal(t, 1, acted)
}

func TestRouter_PagesOfOthersAreRefused(t *testing.T) {
	acted := 0
	r := serve.NewRouter(serve.RouterConfig{
		Node: d1, Role: conclave.RoleData, Metrics: prometheus.NewRegistry(), Events: serve.NewEvents("d", time.Now), Hosts: []string{"registry.example.com"},
		Ready: func() (bool, []string) { return true, nil },
	})
	r.HandleFunc("/v1/act", func(http.ResponseWriter, *http.Request) { acted++ }).Methods(http.MethodPost)
	for name, c := range map[string]struct {
		method, path, host string
		header             map[string]string
		http2              bool
		want               int
	}{
		"a tool acts":                          {"POST", "/v1/act", "127.0.0.1:9600", nil, false, 200},
		"its own page acts":                    {"POST", "/v1/act", "127.0.0.1:9600", map[string]string{"Sec-Fetch-Site": "same-origin"}, false, 200},
		"a foreign page acts":                  {"POST", "/v1/act", "127.0.0.1:9600", map[string]string{"Sec-Fetch-Site": "cross-site"}, false, 403},
		"a foreign page of an old browser":     {"POST", "/v1/act", "127.0.0.1:9600", map[string]string{"Origin": "http://evil.example", "Content-Type": "text/plain"}, false, 403},
		"a page of the same site acts":         {"POST", "/v1/act", "localhost:9600", map[string]string{"Sec-Fetch-Site": "same-site"}, false, 403},
		"a sandboxed page acts":                {"POST", "/v1/act", "127.0.0.1:9600", map[string]string{"Origin": "null"}, false, 403},
		"a rebound name reads":                 {"GET", "/healthz", "evil.example:9600", nil, false, 403},
		"a rebound name acts":                  {"POST", "/v1/act", "evil.example", map[string]string{"Sec-Fetch-Site": "same-origin"}, false, 403},
		"a foreign page reads":                 {"GET", "/healthz", "127.0.0.1:9600", map[string]string{"Sec-Fetch-Site": "cross-site"}, false, 200}, // and cannot see the answer
		"the node's name":                      {"GET", "/healthz", "Data-1:9600", nil, false, 200},
		"a configured name":                    {"GET", "/healthz", "registry.example.com.", nil, false, 200},
		"localhost":                            {"GET", "/healthz", "localhost", nil, false, 200},
		"an address of IPv6":                   {"GET", "/healthz", "[::1]:9600", nil, false, 200},
		"HTTP/1.0 without a host":              {"GET", "/healthz", "", nil, false, 200},
		"HTTP/2, which no browser speaks here": {"GET", "/healthz", "sessions.internal:9603", nil, true, 200},
	} {
		t.Run(name, func(t *testing.T) {
			before := acted
			q := httptest.NewRequest(c.method, c.path, nil)
			q.Host = c.host
			if c.http2 {
				q.ProtoMajor, q.ProtoMinor = 2, 0
			}
			for k, v := range c.header {
				q.Header.Set(k, v)
			}
			w := httptest.NewRecorder()
			r.ServeHTTP(w, q)
			assert.Equal(t, c.want, w.Code, w.Body.String())
			assert.Equal(t, c.method == "POST" && c.want == 200, acted > before)
		})
	}
}
