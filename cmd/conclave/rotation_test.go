package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/client"
	"conclave/testbed/local/supervisor"
	"conclave/testbed/outside"
)

// All tokens of a running cluster are replaced, nodes' and applications', while
// applications publish: subscribers miss nothing. (TestRights_RotationUnderLoadMissesNothing
// of package session is the same in virtual time, with more clients.)
func TestUp_TokensAreReplacedUnderLoad(t *testing.T) {
	if testing.Short() {
		t.Log("short: without real processes")
		return
	}
	realPrograms(t)
	dir := filepath.Join(t.TempDir(), "c")
	defer tool(t, "--dir", dir, "down", "--now")
	up := tool(t, "--dir", dir, "--json", "up", "--detach", "--meta-nodes", "2", "--data-nodes", "2", "--session-nodes", "2", "--slots", "16")
	var nodes []supervisor.Process
	var sessions []string
	for _, p := range decode[[]supervisor.Process](t, up) {
		if p.Role != "db" {
			nodes = append(nodes, p)
		}
		if p.Role == "session" {
			sessions = append(sessions, p.HTTP)
		}
	}
	own := filepath.Join(t.TempDir(), "token")
	give := func(token string) { require.NoError(t, os.WriteFile(own, []byte(token), 0o600)) }
	first, err := os.ReadFile(supervisor.AppTokenPath(dir))
	require.NoError(t, err)
	give(string(first))

	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	const n = 8
	var clients []*client.Client
	var published []*client.Publication
	for i := range n {
		x, err := client.New(client.Config{Sessions: sessions, TokenFrom: client.TokenFile(own)})
		require.NoError(t, err)
		x.Start()
		defer x.Close(ctx)
		p, err := x.Publish(ctx, "svc", []string{fmt.Sprint(i)})
		require.NoError(t, err)
		require.NoError(t, p.Stored(ctx))
		clients, published = append(clients, x), append(published, p)
	}
	var mu sync.Mutex // guards these
	lists, complete, missing := 0, false, 0
	_, err = clients[0].Subscribe("svc", client.OnPush(func(d conclave.Datum) {
		mu.Lock()
		defer mu.Unlock()
		complete = complete || len(d.Values) == n
		if lists++; complete && len(d.Values) < n {
			missing++
		}
	}))
	require.NoError(t, err)
	require.Eventually(t, func() bool { mu.Lock(); defer mu.Unlock(); return complete }, 30*time.Second, 10*time.Millisecond)
	var working sync.WaitGroup
	working.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			if err := published[i%n].Update([]string{fmt.Sprintf("%d: %d", i%n, i)}); err != nil {
				return // the test has ended
			}
			time.Sleep(10 * time.Millisecond)
		}
	})

	status := func(address, token string) int {
		return outside.Status(ctx, http.DefaultClient, "http://"+address+"/v1/stopping", token)
	}
	// replace writes the file, makes the nodes read it, and waits until each answers
	// the token like this.
	replace := func(text, token string, want int) {
		path := supervisor.TokensPath(dir)
		require.NoError(t, os.WriteFile(path+".new", []byte(text), 0o600))
		require.NoError(t, os.Rename(path+".new", path))
		for _, p := range nodes {
			require.NoError(t, syscall.Kill(p.PID, syscall.SIGHUP))
		}
		for _, p := range nodes {
			require.Eventually(t, func() bool { return status(p.HTTP, token) == want }, 30*time.Second, 10*time.Millisecond, p.Name)
		}
	}
	old, err := os.ReadFile(supervisor.TokensPath(dir))
	require.NoError(t, err)
	oldToken, last := strings.TrimSpace(string(first)), string(old)
	for round := range 3 {
		var lines strings.Builder
		for _, right := range []string{"operator", "node", "publish", "read"} {
			fmt.Fprintf(&lines, "%s local %s-token-%d\n", right, right, round)
		}
		token := fmt.Sprintf("publish-token-%d", round)
		replace(last+lines.String(), token, http.StatusOK)
		give(token)
		replace(lines.String(), oldToken, http.StatusUnauthorized)
		oldToken, last = token, lines.String()
		for _, p := range published {
			require.NoError(t, p.Stored(ctx))
		}
	}
	for _, p := range published {
		require.NoError(t, p.Err())
		require.NoError(t, p.Stored(ctx))
	}
	assert.Equal(t, exitDone, tool(t, "--dir", dir, "switch", "list").code, "the tool reads the file")
	mu.Lock()
	assert.Zero(t, missing, "of %d lists", lists)
	mu.Unlock()
	cancel()
	working.Wait()
	for _, x := range clients {
		assert.GreaterOrEqual(t, x.Lost(), int64(3))
	}
}
