package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/internal/long"
	"conclave/testbed"
	"conclave/testbed/bench"
	"conclave/testbed/load"
	"conclave/testbed/local/supervisor"
)

// The folder is removed, or its logs are kept and named once in the error.
func TestCloseFolder_KeepsLogsOfAFailure(t *testing.T) {
	const one, other = "cluster/logs/meta-1.log", "fresh-1/logs/db.log"
	for name, c := range map[string]struct {
		failed      string // ROOT is the folder
		interrupted bool
		files       []string
		want        string // of the error; "": the folder is removed and the error unchanged
		waited      bool   // the error is a supervisor.NotReadyError
	}{
		"done":                        {"", false, []string{one}, "", false},
		"done, and interrupted":       {"", true, []string{one}, "", false},
		"failed before any folder":    {"it broke", false, nil, "", false},
		"failed before any process":   {"it broke", false, []string{"cluster/lock", "cluster/dsn"}, "", false},
		"failed":                      {"it broke", false, []string{one, "cluster/logs/db.log"}, "it broke; logs are in ROOT/cluster/logs", false},
		"failed with two clusters":    {"it broke", false, []string{one, other}, "it broke; logs are in ROOT", false},
		"another path of it is named": {"open ROOT/cluster/x: no", false, []string{one}, "open ROOT/cluster/x: no; logs are in ROOT/cluster/logs", false},
		"not ready in time":           {"", false, []string{one, other}, "context deadline exceeded: not ready: db; their logs are in ROOT/fresh-1/logs", true},
		"interrupted":                 {"it broke", true, []string{one}, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			root := filepath.Join(t.TempDir(), "own")
			require.NoError(t, os.MkdirAll(filepath.Join(root, "cluster", "logs"), 0o755))
			for _, f := range c.files {
				require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(root, f)), 0o755))
				require.NoError(t, os.WriteFile(filepath.Join(root, f), nil, 0o644))
			}
			var failed error
			switch {
			case c.waited:
				failed = &supervisor.NotReadyError{Cause: context.DeadlineExceeded, Waiting: []string{"db"}, Logs: filepath.Join(root, "fresh-1", "logs")}
			case c.failed != "":
				failed = errors.New(strings.ReplaceAll(c.failed, "ROOT", root))
			}
			err := closeFolder(root, c.interrupted, failed)
			if c.want == "" {
				assert.Equal(t, failed, err)
				assert.NoDirExists(t, root)
				return
			}
			assert.ErrorIs(t, err, failed)
			assert.EqualError(t, err, strings.ReplaceAll(c.want, "ROOT", root))
			assert.FileExists(t, filepath.Join(root, c.files[0]))
		})
	}
}

func TestCloseFolder_IgnoresErrorOfRemoval(t *testing.T) {
	root := t.TempDir() + "/." // os.RemoveAll refuses this path for any user
	require.Error(t, os.RemoveAll(root))
	assert.NoError(t, closeFolder(root, false, nil))
	failed := errors.New("it broke")
	assert.Equal(t, failed, closeFolder(root, false, failed))
}

// A cluster whose supervisor cannot start has a folder but no logs.
func TestOwnCluster_LeavesNoFolderIfSupervisorFails(t *testing.T) {
	bin, temp := t.TempDir(), filepath.Join(t.TempDir(), strings.Repeat("d", 120)) // too deep for a socket
	require.NoError(t, os.Mkdir(temp, 0o755))
	for _, program := range []string{"meta", "data", "session", "devdb"} { // looked for, and never started
		require.NoError(t, os.WriteFile(filepath.Join(bin, program), nil, 0o644))
	}
	t.Setenv("TMPDIR", temp)
	t.Setenv(binEnv, bin)
	for _, args := range [][]string{{"demo"}, {"bench"}} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		var stdout, stderr bytes.Buffer
		assert.Equal(t, exitFailed, run(ctx, args, &stdout, &stderr), args)
		cancel()
		assert.Contains(t, stderr.String(), "listen unix", args)
		assert.NotContains(t, stderr.String(), "logs are in", args)
		left, err := os.ReadDir(temp)
		require.NoError(t, err)
		assert.Empty(t, left, args)
	}
}

func TestBenchGrowth_RefusesWrongFlagsBeforeAnythingStarts(t *testing.T) {
	t.Setenv(binEnv, t.TempDir()) // without programs
	for want, args := range map[string][]string{
		`unknown measurement "calm" (want one of registrations`:       {"--full", "--only", "calm"},
		`unknown measurement "providers" (want one of calm`:           {"--only", "providers"},
		"--repeat and --full exclude each other":                      {"--full", "--repeat", "3"},
		"unknown flag: --sizes":                                       {"--sizes"},
		"--max-registrations needs --full":                            {"--max-registrations", "5000"},
		"--for needs --full":                                          {"--for", "1s"},
		"at most 5 registrations: want at least 1000":                 {"--full", "--max-registrations", "5"},
		"--max-connections is -1: want 0 or more":                     {"--full", "--max-connections", "-1"},
		"--limit is 0s: want more than 0":                             {"--full", "--limit", "0s"},
		"--for is 0s: want more than 0":                               {"--full", "--for", "0s"},
		`--report "` + filepath.Join("no", "x.json") + `": no folder`: {"--full", "--report", filepath.Join("no", "x.json")},
		`--beside "consul=127.0.0.1:8500": want NAME=ADDR,...`:        {"--beside", "consul=127.0.0.1:8500"},
		`--beside "etcd": want NAME=ADDR,... (NAME: etcd or`:          {"--beside", "etcd"},
		`unknown measurement "calm" (want one of rest`:                {"--beside", "etcd=127.0.0.1:1", "--only", "calm"},
		`unknown measurement "leader-killed" (want one of rest`:       {"--beside", "etcd=127.0.0.1:1", "--only", "leader-killed"},
		"--kill-peers needs --beside":                                 {"--kill-peers"},
	} {
		r := tool(t, append([]string{"bench"}, args...)...)
		assert.Equal(t, exitUsage, r.code, "%v", args)
		assert.Contains(t, r.stderr, want, "%v", args)
	}
}

func TestBenchBeside_NeedsTheProgramPeers(t *testing.T) {
	t.Setenv(binEnv, t.TempDir())
	r := tool(t, "bench", "--beside", "etcd=127.0.0.1:1")
	assert.Equal(t, exitFailed, r.code)
	assert.Contains(t, r.stderr, "which `make peers` builds")
}

// Three real nodes of etcd are measured beside a cluster, and each leader is killed.
func TestBenchBeside_MeasuresEtcd(t *testing.T) {
	if !long.All() {
		t.Skip("needs etcd: set TEST_ALL=1 to run this test on a real one")
	}
	if _, err := exec.LookPath(cmp.Or(os.Getenv("ETCD"), "etcd")); err != nil {
		t.Skipf("no etcd (Debian: etcd-server; ETCD names another): %v", err)
	}
	realPrograms(t)
	const peers = "../../testbed/bench/peers"
	build := exec.Command("go", "build", "-o", buildDir+"/", ".")
	build.Dir = peers
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)

	r := tool(t, "bench", "--beside", "etcd=127.0.0.1:1")
	assert.Equal(t, exitFailed, r.code)
	assert.Contains(t, r.stderr, "etcd does not answer: 127.0.0.1:1: ")

	cmd := exec.Command(peers+"/with-peers", os.Args[0], "--json", "bench", "--repeat", "3", "--calm", "1s", "--kill-peers")
	cmd.Env, cmd.Stderr = append(os.Environ(), "DIR="+t.TempDir()), t.Output()
	out, err = cmd.Output()
	require.NoError(t, err, "%s", out)
	var report bench.Report
	require.NoError(t, json.Unmarshal(out, &report))
	measured := map[string]bench.Figure{}
	for _, f := range report.Figures {
		measured[f.Name+" "+f.Unit] = f
	}
	for _, name := range []string{"conclave", "etcd"} {
		for _, row := range []string{"rest-%s MiB", "update-1-%s ms", "update-1-%s-processor ms of processor", "update-of-10000-%s ms", "registrations-%s per s", "registrations-%s-processor us of processor", "leader-killed-%s ms"} {
			row = fmt.Sprintf(row, name)
			assert.Positive(t, measured[row].P50, row)
		}
		assert.Equal(t, 100*measured["update-1-"+name+" ms"].N, measured["update-100-"+name+" ms"].N, "each watcher has had each update")
	}
	assert.Contains(t, measured["update-1-etcd ms"].What, "(on disk)")
}

func TestBenchGrowth_WritesTableAndJSON(t *testing.T) {
	if testing.Short() {
		t.Skip("starts real processes")
	}
	realPrograms(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "growth.json")
	r := tool(t, "bench", "--full", "--tls", "--only", "registrations,connections", "--max-registrations", "1000", "--max-connections", "10",
		"--limit", "2m", "--report", file)
	require.Equal(t, exitDone, r.code, r.stderr)
	assert.Contains(t, r.stdout, "200 connections, 1000 registrations: registrations stored")
	body, err := os.ReadFile(file)
	require.NoError(t, err)
	var g bench.Report
	require.NoError(t, json.Unmarshal(body, &g))
	seen := map[string]bench.Figure{}
	for _, f := range g.Figures {
		seen[f.Name] = f
	}
	assert.Positive(t, seen["registrations-rate-20-1000"].P50)
	assert.Positive(t, seen["connections-killed-10"].P50)
	bounced := seen["registrations-bounced-20-1000"]
	assert.Zero(t, bounced.P50)
	assert.Regexp(t, "clients whose lease has expired: 0, elections: 0, evictions: 0, memory of meta: [1-9].*, memory of data: [1-9]", bounced.Note)
}

// The pool counts the client's own report of a lost session.
func TestPool_CountsLostSessions(t *testing.T) {
	if testing.Short() {
		t.Skip("starts real processes")
	}
	realPrograms(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cluster, err := startOwn(ctx, filepath.Join(t.TempDir(), "c"), false)
	require.NoError(t, err)
	defer func() { assert.NoError(t, cluster.Close(context.WithoutCancel(ctx))) }()
	cfg, err := cluster.ClientConfig("bench")
	require.NoError(t, err)
	pool := load.NewPool(cfg)
	one, err := pool.One("one")
	require.NoError(t, err)
	defer one.Kill()
	r, err := one.Publish(ctx, "lost", []string{"v"})
	require.NoError(t, err)
	require.NoError(t, r.Stored(ctx))
	assert.Zero(t, pool.Lost())
	for _, session := range []string{"session-1", "session-2"} { // the client is at one of them, and may reach the other in between
		require.NoError(t, cluster.Do(ctx, testbed.Action{Verb: testbed.Kill, Node: session}))
	}
	require.Eventually(t, func() bool { return pool.Lost() > 0 }, 30*time.Second, 10*time.Millisecond)
}
