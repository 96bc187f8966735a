package session_test

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/internal/inprocess"
	"conclave/internal/long"
)

// The published clients of SOFARegistry for Java and for Node register and watch, on a real
// network. Each session dies and comes back, and a data node and the leader of the metas die;
// none of them ever misses a value.
func TestSofa_ProgramsOfOthers(t *testing.T) {
	if !long.All() {
		t.Log("only with TEST_ALL=1: real programs, which are fetched")
		return
	}
	nodes, err := inprocess.New(inprocess.Config{Metas: 3, Datas: 3, Sessions: 2, Sofa: map[string]string{"session-1": freeAddress(t), "session-2": freeAddress(t)}})
	require.NoError(t, err)
	defer nodes.Close()
	for _, name := range nodes.Names() {
		_, err := nodes.Start(name, nil)
		require.NoError(t, err)
	}
	require.NoError(t, nodes.AwaitReady(t.Context()))

	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	seen, want, dir := map[string]*lists{}, []string{}, t.TempDir()
	endpoint := oneName(ctx, t, nodes.Addresses(conclave.RoleSession), &running)
	start := func(name, value string, cmd *exec.Cmd) {
		l := &lists{}
		cmd.Env = append(cmd.Environ(), "SOFA="+endpoint)
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		seen[name], want = l, append(want, value)
		running.Go(func() {
			for lines := bufio.NewScanner(out); lines.Scan(); {
				l.add(lines.Text())
			}
			err := cmd.Wait()
			assert.Error(t, ctx.Err(), "%s has ended: %v", name, err)
		})
	}
	if out, err := exec.CommandContext(ctx, "mvn", "-q", "-B", "-f", "sofa/sofatest/pom.xml", "dependency:build-classpath", "-Dmdep.outputFile="+dir+"/classpath").CombinedOutput(); err != nil {
		t.Logf("SKIPPED: the client for Java: %v\n%s", err, out)
	} else {
		jars, err := os.ReadFile(dir + "/classpath")
		require.NoError(t, err)
		start("java", "10.0.0.1:1", exec.CommandContext(ctx, "java", "-cp", strings.TrimSpace(string(jars)), "-Duser.home="+dir, "sofa/sofatest/Watch.java"))
	}
	if out, err := exec.CommandContext(ctx, "npm", "install", "--no-audit", "--no-fund", "--prefix", dir, "sofa-registry-node@0.0.1", "urllib@2").CombinedOutput(); err != nil {
		t.Logf("SKIPPED: the client for Node: %v\n%s", err, out)
	} else {
		cmd := exec.CommandContext(ctx, "node", "sofa/sofatest/watch.js")
		cmd.Env = append(os.Environ(), "NODE_PATH="+filepath.Join(dir, "node_modules"))
		start("node", "10.0.0.2:2", cmd)
	}
	full, at := strings.Join(want, " "), map[string]int{}
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		for name, l := range seen {
			at[name] = slices.Index(l.since(0), full)
			assert.GreaterOrEqual(c, at[name], 0, "%s has seen %q", name, l.since(0))
		}
	}, time.Minute, 100*time.Millisecond)
	leader, _ := nodes.Leader()
	for _, name := range []string{"data-1", "session-1", leader, "session-2"} {
		require.NoError(t, killed(nodes.Process(name)))
		time.Sleep(20 * time.Second) // the grace of what a session leaves is 15 s
		for who, l := range seen {
			for _, list := range l.since(at[who]) {
				require.Equal(t, full, list, "%s, after %s was killed", who, name)
			}
		}
		_, err := nodes.Start(name, nil)
		require.NoError(t, err)
		require.NoError(t, nodes.AwaitReady(ctx))
	}
}
