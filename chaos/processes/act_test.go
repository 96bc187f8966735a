package processes_test

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

	"conclave/chaos"
	"conclave/chaos/processes"
	"conclave/internal/supervisor"
)

// deaf is a program that hears no SIGTERM once it has said so by a file.
const deaf = "#!/bin/sh\ntrap '' TERM\n: > \"$0.$$\"\nexec sleep 3600\n"

// driver is one of a small cluster of such programs; pid is the one of a process,
// which is deaf by then.
func driver(t *testing.T) (d *processes.Driver, pid func(name string) int) {
	bin, dir := t.TempDir(), t.TempDir()
	for _, name := range []string{"meta", "session", "data", "devdb"} {
		require.NoError(t, os.WriteFile(filepath.Join(bin, name), []byte(deaf), 0o755))
	}
	d = processes.New(processes.Config{Bin: bin, Dir: dir})
	require.NoError(t, d.Open(t.Context(), chaos.Cluster{Metas: 1, Sessions: 1, Datas: 1, Slots: 4, Replicas: 1, Takeover: "witness", Lease: 3 * time.Second}, nil))
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
	do := func(v chaos.Verb) error { return d.Do(t.Context(), chaos.Act{Verb: v, Node: "data-1"}) }
	for _, frozen := range []bool{false, true} {
		before := pid("data-1")
		require.NotZero(t, before)
		require.NoError(t, do(chaos.Start), "it runs")
		require.Equal(t, before, pid("data-1"))

		require.NoError(t, do(chaos.Stop))
		if frozen {
			require.NoError(t, do(chaos.Pause))
		}
		require.Equal(t, before, pid("data-1"), "it takes its time")
		require.NoError(t, do(chaos.Start))
		assert.NotZero(t, pid("data-1"))
		assert.NotEqual(t, before, pid("data-1"), "a new life")
	}

	require.NoError(t, do(chaos.Kill))
	require.Zero(t, pid("data-1"))
	require.NoError(t, do(chaos.Stop), "what is down already is no error")
	require.NoError(t, do(chaos.Start))
	after := pid("data-1")
	require.NotZero(t, after)
	require.NoError(t, do(chaos.Start))
	assert.Equal(t, after, pid("data-1"), "this life was not told to stop")
	assert.ErrorIs(t, d.Do(t.Context(), chaos.Act{Verb: chaos.Stop, Node: "data-9"}), supervisor.ErrNoProcess)
}
