package main

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/internal/cli/clitest"
	"conclave/testbed/local/supervisor"
)

// `clients --count` is the command's former name.
func TestWorkload_CountIsAtLeastOne(t *testing.T) {
	for _, command := range []string{"workload", "clients"} {
		r := tool(t, "--meta", "127.0.0.1:1", command, "--count", "0")
		assert.Equal(t, exitUsage, r.code)
		assert.Contains(t, r.stderr, "--count is 0")
		assert.Equal(t, command == "clients", strings.Contains(r.stderr, "`conclave workload --count`"), r.stderr)
		assert.Equal(t, exitFailed, tool(t, "--dir", t.TempDir(), command, "--count", "1").code, "there is no cluster to be a client of")
	}
}

// The clients of a container, which connect with --session only.
func TestWorkload_RunsUntilContextEnds(t *testing.T) {
	if testing.Short() {
		t.Log("short: without real processes")
		return
	}
	realPrograms(t)
	dir := filepath.Join(t.TempDir(), "c")
	defer tool(t, "--dir", dir, "down", "--now")
	ps := decode[[]supervisor.Process](t, tool(t, "--dir", dir, "--json", "up", "--detach", "--meta-nodes", "1", "--session-nodes", "1", "--data-nodes", "1"))
	var session string
	for _, p := range ps {
		if p.Role == "session" {
			session = p.HTTP
		}
	}
	require.NotEmpty(t, session)

	ctx, leave := context.WithCancel(t.Context())
	var out, complaints clitest.Output
	code := make(chan int, 1)
	go func() { code <- run(ctx, []string{"--dir", dir, "workload", "--count", "2"}, &out, &complaints) }()
	require.Eventually(t, func() bool {
		said := out.String()
		for _, want := range []string{"publisher-1  demo.echo = 10.0.0.1:8080", "publisher-2  demo.echo = 10.0.0.2:8080"} {
			if !strings.Contains(said, want) {
				return false
			}
		}
		return strings.Contains(said, "subscriber-1  demo.echo") && strings.Contains(said, "subscriber-2  demo.echo") &&
			strings.Count(said, "  2 values: ") >= 2 // one at each
	}, 30*time.Second, 20*time.Millisecond, "%s%s", &out, &complaints)

	got := decode[push](t, tool(t, "--dir", dir, "--json", "get", "demo.echo", "--session", session))
	assert.ElementsMatch(t, []string{"10.0.0.1:8080", "10.0.0.2:8080"}, got.Values)

	leave()
	assert.Equal(t, exitDone, <-code, complaints.String())
	require.Eventually(t, func() bool {
		r := tool(t, "--dir", dir, "get", "demo.echo", "--session", session)
		return r.code == exitFailed && strings.Contains(r.stderr, "nothing is published under demo.echo")
	}, 30*time.Second, 20*time.Millisecond, "they said good-bye")
}
