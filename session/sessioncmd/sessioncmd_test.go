package sessioncmd

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/internal/cli"
	"conclave/internal/cli/clitest"
)

// The process starts without a cluster, prints its address, is alive and not
// ready, and stops when its context ends.
func TestProcessStartsAndStops(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	var out, log clitest.Output
	var code error
	var run sync.WaitGroup
	run.Go(func() {
		code = cli.Execute(ctx, Process(), []string{"--name", "session-1", "--listen", "127.0.0.1:0", "--meta", "127.0.0.1:1"}, nil, &out, &log)
	})
	defer run.Wait()
	defer stop()
	address := ""
	require.Eventually(t, func() bool {
		_, after, found := strings.Cut(out.String(), "answers at ")
		address = strings.TrimSpace(after)
		return found && strings.HasSuffix(out.String(), "\n")
	}, 30*time.Second, time.Millisecond)
	for path, want := range map[string]int{"/healthz": http.StatusOK, "/readyz": http.StatusServiceUnavailable, "/v1/clients": http.StatusOK, "/metrics": http.StatusOK} {
		res, err := http.Get("http://" + address + path)
		require.NoError(t, err)
		res.Body.Close()
		assert.Equal(t, want, res.StatusCode, path)
	}
	stop()
	run.Wait()
	assert.Zero(t, cli.Code(code), "%v", code)
}

// Settings that contradict each other are a usage error that names both.
func TestProcess_RefusesInvalidSettings(t *testing.T) {
	tokens := filepath.Join(t.TempDir(), "tokens")
	require.NoError(t, os.WriteFile(tokens, []byte("operator amy s3cret\n"), 0o600))
	for _, c := range []struct {
		args string
		want string
	}{
		{"", "meta"},
		{"--meta nowhere", "nowhere"},
		{"--meta 127.0.0.1:1 --client-lease 20s", "client lease"},
		{"--meta 127.0.0.1:1 --client-lease 11s", "session grace"},
		{"--meta 127.0.0.1:1 --listen 0.0.0.0:0", "insecure"},
		{"--meta 127.0.0.1:1 --consul-listen 0.0.0.0:8500", "insecure"},
		{"--meta 127.0.0.1:1 --dns-listen 0.0.0.0:8600", "insecure"},
		{"--meta 127.0.0.1:1 --dns-listen 8600", "HOST:PORT"},
		{"--meta 127.0.0.1:1 --dns-listen 127.0.0.1:8600 --token-file " + tokens, "public-reads"},
	} {
		var out, log clitest.Output
		err := cli.Execute(t.Context(), Process(), append(strings.Fields(c.args), "--name", "session-1"), nil, &out, &log)
		assert.Equal(t, cli.CodeUsage, cli.Code(err), "%s: %v", c.args, err)
		assert.ErrorContains(t, err, c.want)
	}
}
