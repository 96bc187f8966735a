package main

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/meta/metaclient"
	"conclave/testbed/console"
	"conclave/wire/rights"
)

// A process with a node's token can have the metas list any address: a console that
// was started with --meta sends nothing of use there.
func TestLiveSource_BindsTheTokenToAddressesThatMetasList(t *testing.T) {
	stranger := record(t)
	meta := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/v1/nodes":
			_ = json.NewEncoder(w).Encode([]metaclient.NodeInfo{{Name: "session-9", Role: conclave.RoleSession, Address: stranger.address}})
		case "/healthz":
			_ = json.NewEncoder(w).Encode(map[string]string{"name": "meta-1"})
		default:
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	t.Cleanup(meta.Close)
	a := &app{metas: []string{strings.TrimPrefix(meta.URL, "http://")}, token: "secret"}
	a.http = a.newHTTPClient()
	source, err := a.liveSource(false)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { assert.NoError(t, source.Run(ctx, console.NewHub())) })
	defer running.Wait()
	defer cancel()
	require.Eventually(t, func() bool {
		stranger.mu.Lock()
		defer stranger.mu.Unlock()
		return len(stranger.tokens) > 0
	}, 20*time.Second, 20*time.Millisecond)
	stranger.mu.Lock()
	defer stranger.mu.Unlock()
	assert.Equal(t, map[string]bool{rights.Bind("secret", stranger.address): true}, stranger.tokens)
}
