package node

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"

	"conclave"
	"conclave/internal/trace"
	"conclave/wire"
)

// A node answers pprof only if that is switched on, and only to its own machine.
func TestRouter_ProfilesAreForLoopbackAndOffByDefault(t *testing.T) {
	for _, test := range []struct {
		on     bool
		path   string
		from   string
		status int
	}{
		{false, "heap", "127.0.0.1:1", http.StatusNotFound},
		{true, "heap", "127.0.0.1:1", http.StatusOK},
		{true, "", "[::1]:1", http.StatusOK},
		{true, "heap", "192.0.2.1:1", http.StatusForbidden},
		{true, "heap", "", http.StatusForbidden},
		{true, "cmdline", "127.0.0.1:1", http.StatusNotFound},
	} {
		c := Config{Node: conclave.NodeID{Name: "n", Incarnation: "i"}, Network: wire.NewTCP(), Pprof: test.on, Trace: trace.Sink(nil)}.WithDefaults()
		b := New(c, conclave.RoleData)
		defer b.Peers.Close()
		r := b.Router(func() (bool, []string) { return true, nil }, func(uint64, conclave.NodeID, string) {})
		req := httptest.NewRequest(http.MethodGet, "http://127.0.0.1"+profilePath+test.path, nil)
		req.RemoteAddr = test.from
		w := httptest.NewRecorder()
		r.ServeHTTP(w, req)
		assert.Equal(t, test.status, w.Code, "%+v", test)
	}
}
