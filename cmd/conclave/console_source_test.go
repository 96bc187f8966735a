package main

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
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

// The token itself is sent to the processes of the folder, where they listen and
// where they are reached, and to what the user has named.
func TestTokenFor_OthersAreSentABoundToken(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "cluster.json"), []byte(`{"processes":[{"name":"meta-1","role":"meta","address":"a:1","told":"b:1"},{"name":"publisher-1"}]}`), 0o600))
	local := &app{dir: dir, token: "secret", sessionsAt: []string{"s:1"}}
	remote := &app{dir: dir, token: "secret", metas: []string{"m:1"}}
	for _, address := range []string{"a:1", "b:1", "s:1"} {
		assert.Equal(t, "secret", local.tokenFor(address), address)
		assert.Equal(t, rights.Bind("secret", address), remote.tokenFor(address), address)
	}
	assert.Equal(t, "secret", remote.tokenFor("m:1"))
	assert.Equal(t, rights.Bind("secret", "m:1"), local.tokenFor("m:1"))
}
