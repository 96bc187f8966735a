package local_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/testbed"
	"conclave/testbed/local"
	"conclave/testbed/local/supervisor"
)

// ignoresTERM is a program that ignores SIGTERM once it has created a file.
const ignoresTERM = "#!/bin/sh\ntrap '' TERM\n: > \"$0.$$\"\nexec sleep 3600\n"

// driver opens a small cluster of such programs. pid returns the id of a
// process once it ignores SIGTERM.
func driver(t *testing.T) (d *local.Cluster, pid func(name string) int) {
	bin, dir := t.TempDir(), t.TempDir()
	for _, name := range []string{"meta", "session", "data", "devdb"} {
		require.NoError(t, os.WriteFile(filepath.Join(bin, name), []byte(ignoresTERM), 0o755))
	}
	noMigration := func(context.Context, string, func(time.Duration, error)) error { return nil }
	d = local.New(local.Config{Bin: bin, Dir: dir, Settings: func(c *supervisor.Config) { c.Migrate = noMigration }})
	require.NoError(t, d.Open(t.Context(), testbed.Size{Metas: 1, Sessions: 1, Datas: 1, Slots: 4, Replicas: 1, Takeover: "witness", Lease: 3 * time.Second}, nil))
	t.Cleanup(func() { assert.NoError(t, d.Close(context.Background())) })
	nodes, err := supervisor.Open(filepath.Join(dir, "cluster"))
	require.NoError(t, err)
	return d, func(name string) int {
		rows, err := nodes.Rows()
		require.NoError(t, err)
		i := slices.IndexFunc(rows, func(p supervisor.Process) bool { return p.Name == name })
		require.NotEqual(t, -1, i)
		if rows[i].PID > 0 {
			require.Eventually(t, func() bool {
				_, err := os.Stat(filepath.Join(bin, fmt.Sprintf("%s.%d", rows[i].Role, rows[i].PID)))
				return err == nil
			}, 20*time.Second, 5*time.Millisecond)
		}
		return rows[i].PID
	}
}

func TestStart_KillsNodeThatIsStillStopping(t *testing.T) {
	d, pid := driver(t)
	do := func(v testbed.Verb) error { return d.Do(t.Context(), testbed.Action{Verb: v, Node: "data-1"}) }
	for _, paused := range []bool{false, true} {
		before := pid("data-1")
		require.NotZero(t, before)
		require.NoError(t, do(testbed.Start), "it runs")
		require.Equal(t, before, pid("data-1"))

		require.NoError(t, do(testbed.Stop))
		if paused {
			require.NoError(t, do(testbed.Pause))
		}
		require.Equal(t, before, pid("data-1"), "it is still stopping")
		require.NoError(t, do(testbed.Start))
		assert.NotZero(t, pid("data-1"))
		assert.NotEqual(t, before, pid("data-1"), "a new incarnation")
	}

	require.NoError(t, do(testbed.Kill))
	require.Zero(t, pid("data-1"))
	require.NoError(t, do(testbed.Stop), "a node that is down is no error")
	require.NoError(t, do(testbed.Start))
	after := pid("data-1")
	require.NotZero(t, after)
	require.NoError(t, do(testbed.Start))
	assert.Equal(t, after, pid("data-1"), "this incarnation was not asked to stop")
	assert.ErrorIs(t, d.Do(t.Context(), testbed.Action{Verb: testbed.Stop, Node: "data-9"}), supervisor.ErrNoProcess)
}

// A console replaces its clients for as long as it runs.
func TestClient_ClosedOneFreesItsName(t *testing.T) {
	d, _ := driver(t)
	for range 300 {
		c, err := d.Client("client-1")
		require.NoError(t, err)
		_, err = d.Client("client-1")
		require.Error(t, err, "it runs")
		require.NoError(t, c.Close(t.Context()))
	}
	for i := range 300 {
		c, err := d.Client(fmt.Sprint("guest-", i))
		require.NoError(t, err)
		require.NoError(t, c.Close(t.Context()))
	}
}
