package containers_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/testbed/containers"
	"conclave/testbed/outside"
)

// prober uses a new connection for each request.
var prober = outside.HTTP(nil, nil)

// TestProject_UpToDown runs everything on real containers: a meta and its
// database.
func TestProject_UpToDown(t *testing.T) {
	needsDocker(t)
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	image, err := exec.CommandContext(ctx, "../../compose/db-image").Output()
	require.NoError(t, err)
	cfg := containers.ProjectConfig{Env: []string{"DB_IMAGE=" + strings.TrimSpace(string(image))}, Name: fmt.Sprintf("conclave-test-%d", os.Getpid()), Dir: "testdata", Out: t.Output()}
	p, err := containers.NewProject(cfg)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		assert.NoError(t, p.Down(ctx))
	})
	require.NoError(t, p.Up(ctx))
	ready := func() {
		t.Helper()
		ctx, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		require.NoError(t, p.AwaitReady(ctx, prober, "meta-1"))
	}
	ready()
	web := &http.Client{Transport: &http.Transport{DialContext: p.Outside().DialContext, DisableKeepAlives: true}, Timeout: 2 * time.Second}
	leads := func() bool {
		res, err := web.Get("http://meta-1:9615/leaderz") // the name that it advertises
		if err != nil {
			return false
		}
		res.Body.Close()
		return res.StatusCode == http.StatusOK
	}
	eventually := func(want bool, what string) {
		t.Helper()
		require.Eventually(t, func() bool { return leads() == want }, 30*time.Second, 20*time.Millisecond, what)
	}
	eventually(true, "it leads")
	before, err := outside.Probe(ctx, prober, p.Published("meta-1")[0])
	require.NoError(t, err)
	assert.Equal(t, "meta-1", before.Name)

	t.Log("killed and started again")
	require.NoError(t, p.Signal(ctx, "meta-1", "KILL"))
	c, err := p.Container(ctx, "meta-1")
	require.NoError(t, err)
	assert.Equal(t, "exited", c.State)
	assert.Equal(t, 137, c.ExitCode)
	assert.ErrorContains(t, p.Signal(ctx, "meta-1", "KILL"), "is not running")
	assert.ErrorContains(t, p.AwaitReady(ctx, prober, "meta-1"), "meta-1 has ended with code 137")
	require.NoError(t, p.Start(ctx, "meta-1"))
	ready()
	after, err := outside.Probe(ctx, prober, p.Published("meta-1")[0])
	require.NoError(t, err)
	assert.NotEqual(t, before.Incarnation, after.Incarnation)
	eventually(true, "it leads again")

	t.Log("database paused and continued")
	require.NoError(t, p.Pause(ctx, "db"))
	eventually(false, "it does not lead without a database")
	require.NoError(t, p.Unpause(ctx, "db"))
	eventually(true, "it leads when the database is back")

	t.Log("disconnected from its database and connected again")
	require.NoError(t, p.Cut(ctx, "meta-1", "database"))
	require.NoError(t, p.Cut(ctx, "meta-1", "database"), "again")
	eventually(false, "it does not lead when it is cut off")
	require.NoError(t, p.Join(ctx, "meta-1", "database"))
	require.NoError(t, p.Join(ctx, "meta-1", "database"), "again")
	eventually(true, "it leads when it is connected again")

	log, err := p.Logs(ctx, "meta-1", time.Time{})
	require.NoError(t, err)
	assert.Contains(t, log, "meta-1 (meta) answers at meta-1:9615")

	t.Log("another process replaces what an interrupted one has left")
	require.NoError(t, p.Pause(ctx, "meta-1"))
	again, err := containers.NewProject(cfg)
	require.NoError(t, err)
	require.NoError(t, again.Up(ctx))
	require.NoError(t, again.AwaitReady(ctx, prober, "meta-1"))

	t.Log("stopped")
	require.NoError(t, again.Stop(ctx, "meta-1", 20*time.Second))
	c, err = again.Container(ctx, "meta-1")
	require.NoError(t, err)
	assert.Equal(t, 0, c.ExitCode)
	require.NoError(t, again.Down(ctx))
	all, err := again.Containers(ctx)
	require.NoError(t, err)
	assert.Empty(t, all)
}
