package serve_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/gorilla/mux"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"conclave"
	"conclave/wire"
	"conclave/wire/rights"
	"conclave/wire/serve"
)

// Every procedure of every service has a right, and no other procedure has one. (A
// node whose router has a path without one does not start: see CheckRoutes.)
func TestRequired_HasEveryProcedure(t *testing.T) {
	var all []string
	protoregistry.GlobalFiles.RangeFilesByPackage("conclave.v1", func(f protoreflect.FileDescriptor) bool {
		for i := range f.Services().Len() {
			s := f.Services().Get(i)
			for j := range s.Methods().Len() {
				all = append(all, "/"+string(s.FullName())+"/"+string(s.Methods().Get(j).Name()))
			}
		}
		return true
	})
	slices.Sort(all)
	assert.Equal(t, all, serve.Procedures())
	assert.Greater(t, len(all), 15)
}

func router(tokens *rights.Tokens, public bool) *mux.Router {
	r := serve.NewRouter(serve.RouterConfig{
		Node: d1, Role: conclave.RoleData, Tokens: tokens, PublicReads: public, Metrics: prometheus.NewRegistry(), Events: serve.NewEvents("d", time.Now),
		Ready: func() (bool, []string) { return true, nil },
	})
	ok := func(http.ResponseWriter, *http.Request) {}
	r.HandleFunc("/v1/leader/resign", ok).Methods(http.MethodPost)
	r.HandleFunc("/v1/observers/{name}", ok).Methods(http.MethodPut)
	r.HandleFunc("/v1/publishers", ok).Methods(http.MethodGet)
	serve.Mount(r, "/conclave.v1.NodeService/", http.HandlerFunc(ok))
	serve.Mount(r, "/conclave.v1.ClientService/", http.HandlerFunc(ok))
	return r
}

func TestCheckRoutes_NamesWhatHasNoRight(t *testing.T) {
	r := router(nil, false)
	require.NoError(t, serve.CheckRoutes(r))
	ok := func(http.ResponseWriter, *http.Request) {}
	r.HandleFunc("/v1/leader/resign", ok).Methods(http.MethodDelete)
	assert.ErrorContains(t, serve.CheckRoutes(r), "DELETE /v1/leader/resign")
	r = router(nil, false)
	serve.Mount(r, "/conclave.v1.NewService/", http.HandlerFunc(ok))
	assert.ErrorContains(t, serve.CheckRoutes(r), "/conclave.v1.NewService/")
	assert.Error(t, serve.CheckRoutes(http.NewServeMux()))
}

const lines = "read page r\npublish shop p\nnode all n\noperator amy o\n"

func writeTokens(t *testing.T, lines string) (file string, tokens *rights.Tokens) {
	file = filepath.Join(t.TempDir(), "tokens")
	require.NoError(t, os.WriteFile(file, []byte(lines), 0o600))
	tokens, err := rights.OpenFile(file, func(err error) { assert.NoError(t, err) })
	require.NoError(t, err)
	return file, tokens
}

func TestRequireRight_OfEachToken(t *testing.T) {
	_, tokens := writeTokens(t, lines)
	closed, public, open := router(tokens, false), router(tokens, true), router(nil, false)
	for _, test := range []struct {
		method, path string
		allowed      string // the tokens, "-" stands for none and "x" for a wrong one
		public       string // with public reads
	}{
		{"GET", "/healthz", "-xrpno", "-xrpno"},
		{"GET", "/metrics", "-xrpno", "-xrpno"},
		{"POST", "/conclave.v1.NodeService/Hello", "-xrpno", "-xrpno"},
		{"GET", "/v1/publishers", "rpno", "-rpno"},
		{"POST", "/conclave.v1.ClientService/Connect", "rpno", "-rpno"},
		{"POST", "/conclave.v1.NodeService/Announce", "no", "no"},
		{"POST", "/conclave.v1.NodeService/Unknown", "o", "o"},
		{"PUT", "/v1/observers/meta-1", "no", "no"},
		{"POST", "/v1/leader/resign", "o", "o"},
	} {
		for _, token := range []string{"-", "x", "r", "p", "n", "o"} {
			ask := func(r *mux.Router) int {
				w, q := httptest.NewRecorder(), httptest.NewRequest(test.method, "http://127.0.0.1"+test.path, nil)
				if token != "-" {
					wire.SetToken(q.Header, token)
				}
				r.ServeHTTP(w, q)
				return w.Code
			}
			want := func(allowed string) int {
				switch {
				case slices.Contains([]byte(allowed), token[0]):
					return http.StatusOK
				case token == "-" || token == "x":
					return http.StatusUnauthorized
				}
				return http.StatusForbidden
			}
			assert.Equal(t, want(test.allowed), ask(closed), "%s %s with %s", test.method, test.path, token)
			assert.Equal(t, want(test.public), ask(public), "%s %s with %s, public reads", test.method, test.path, token)
			assert.Equal(t, http.StatusOK, ask(open), "without tokens")
		}
	}
}

// A stream ends when its token is revoked, and others stay.
func TestRequireRight_RevokedTokenEndsWhatLasts(t *testing.T) {
	file, tokens := writeTokens(t, lines)
	server := httptest.NewServer(router(tokens, false))
	defer server.Close()
	follow := func(token string) io.ReadCloser {
		ctx, cancel := context.WithCancel(t.Context())
		t.Cleanup(cancel)
		q, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+"/v1/events", nil)
		require.NoError(t, err)
		wire.SetToken(q.Header, token)
		res, err := server.Client().Do(q)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, res.StatusCode)
		return res.Body
	}
	reader, operator := follow("r"), follow("o")
	require.NoError(t, os.WriteFile(file, []byte("operator amy o\n"), 0o600))
	tokens.Reload()
	limit := time.AfterFunc(10*time.Second, func() { reader.Close() })
	_, err := io.ReadAll(reader)
	assert.NoError(t, err, "the handler has returned")
	assert.True(t, limit.Stop())
	time.AfterFunc(20*time.Millisecond, func() { operator.Close() })
	_, err = io.ReadAll(operator)
	assert.Error(t, err, "the handler has not returned")
}

// The audit log has what was allowed and changes something: who, what, from where
// and with which result.
func TestAudit_HasActsOfOperatorsAndNodes(t *testing.T) {
	_, tokens := writeTokens(t, lines)
	var acts []serve.Act
	r := serve.NewRouter(serve.RouterConfig{
		Node: d1, Role: conclave.RoleMeta, Tokens: tokens, Metrics: prometheus.NewRegistry(), Events: serve.NewEvents("d", time.Now),
		Ready: func() (bool, []string) { return true, nil }, Audit: func(a serve.Act) { acts = append(acts, a) },
	})
	r.HandleFunc("/v1/leader/resign", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusConflict)
	}).Methods(http.MethodPost)
	r.HandleFunc("/v1/leader", func(http.ResponseWriter, *http.Request) {}).Methods(http.MethodGet)
	serve.Mount(r, "/conclave.v1.MetaService/", http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for _, c := range [][3]string{
		{"GET", "/v1/leader", "o"}, {"GET", "/healthz", "o"}, {"POST", "/v1/leader/resign", "p"}, {"POST", "/v1/leader/resign", "x"},
		{"POST", "/conclave.v1.MetaService/GetLeader", "n"},
	} {
		q := httptest.NewRequest(c[0], "http://127.0.0.1"+c[1], nil)
		wire.SetToken(q.Header, c[2])
		r.ServeHTTP(httptest.NewRecorder(), q)
	}
	assert.Empty(t, acts)
	amy, node := rights.Identity{Name: "amy", Right: rights.Operator}, rights.Identity{Name: "all", Right: rights.Node}
	for _, c := range []struct {
		path, token string
		want        serve.Act
	}{
		{"/v1/leader/resign?force=true", "o", serve.Act{Identity: amy, Request: "POST /v1/leader/resign?force=true", From: "192.0.2.1:1234", Status: http.StatusOK}},
		{"/conclave.v1.MetaService/Drain", "n", serve.Act{Identity: node, Request: "POST /conclave.v1.MetaService/Drain", From: "192.0.2.1:1234", Status: http.StatusOK}},
		{"/conclave.v1.MetaService/Join", "n", serve.Act{Identity: node, Request: "POST /conclave.v1.MetaService/Join", From: "192.0.2.1:1234"}},
	} {
		acts = nil
		q := httptest.NewRequest(http.MethodPost, "http://127.0.0.1"+c.path, nil)
		wire.SetToken(q.Header, c.token)
		r.ServeHTTP(httptest.NewRecorder(), q)
		require.Len(t, acts, 1)
		if c.token == "o" {
			c.want.Status = http.StatusConflict
		}
		assert.Equal(t, c.want, acts[0])
	}
}
