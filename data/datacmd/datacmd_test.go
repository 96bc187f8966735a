package datacmd

import (
	"context"
	"net/http"
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
func TestProcess_StartsAndStops(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	var out, log clitest.Output
	var code error
	var run sync.WaitGroup
	run.Go(func() {
		code = cli.Execute(ctx, Process(), []string{"--name", "data-1", "--listen", "127.0.0.1:0", "--meta", "127.0.0.1:1"}, nil, &out, &log)
	})
	defer run.Wait()
	defer stop()
	address := ""
	require.Eventually(t, func() bool {
		_, after, found := strings.Cut(out.String(), "answers at ")
		address = strings.TrimSpace(after)
		return found && strings.HasSuffix(out.String(), "\n")
	}, 30*time.Second, time.Millisecond)
	for path, want := range map[string]int{"/healthz": http.StatusOK, "/readyz": http.StatusServiceUnavailable, "/v1/slots": http.StatusOK, "/metrics": http.StatusOK} {
		res, err := http.Get("http://" + address + path)
		require.NoError(t, err)
		res.Body.Close()
		assert.Equal(t, want, res.StatusCode, path)
	}
	stop()
	run.Wait()
	assert.Zero(t, cli.Code(code), "%v", code)
}

// Invalid settings are a usage error, and the message names the setting.
func TestProcess_RefusesInvalidFlags(t *testing.T) {
	for _, c := range []struct {
		args    string
		message string
	}{
		{"", "no meta"},
		{"--meta 127.0.0.1:1 --session-grace -1s", "SessionGrace"},
		{"--meta 127.0.0.1:1 --repair-all 1s", "RepairAll"},
		{"--meta 127.0.0.1:1 --listen 0.0.0.0:0", "token"},
	} {
		var out, log clitest.Output
		err := cli.Execute(t.Context(), Process(), append(strings.Fields(c.args), "--name", "data-1"), nil, &out, &log)
		assert.Equal(t, cli.CodeUsage, cli.Code(err), "%s: %v", c.args, err)
		assert.ErrorContains(t, err, c.message)
	}
}
