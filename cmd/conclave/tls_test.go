package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/client"
	"conclave/internal/certs"
	"conclave/testbed/console"
	"conclave/testbed/local/supervisor"
)

// Certificates are renewed, and then the CA is replaced, while clients publish and
// each session or data node is restarted, so that every connection to it is made
// again: no list lacks a registration that was stored.
func TestUp_CertificatesAreRenewedUnderLoad(t *testing.T) {
	if testing.Short() {
		t.Log("short: without real processes")
		return
	}
	realPrograms(t)
	dir := filepath.Join(t.TempDir(), "c")
	defer tool(t, "--dir", dir, "down", "--now")
	up := tool(t, "--dir", dir, "--json", "up", "--tls", "--detach", "--meta-nodes", "2", "--data-nodes", "2", "--session-nodes", "2", "--slots", "16")
	require.Equal(t, exitDone, up.code, up.stderr)
	h, err := supervisor.Open(dir)
	require.NoError(t, err)
	sessions, err := h.Addresses("session")
	require.NoError(t, err)
	plain := tool(t, "--meta", strings.Join(must(h.Addresses("meta")), ","), "leader")
	assert.NotEqual(t, exitDone, plain.code, "the metas answer only over TLS")
	consoleActs(startConsole(t, "--dir", dir, "console", "--allow-actions", "--listen", "127.0.0.1:0"))

	token, err := os.ReadFile(filepath.Join(dir, "app-token"))
	require.NoError(t, err)
	from, err := client.TLSFolder(h.TLSDir(), func(err error) { assert.NoError(t, err) })
	require.NoError(t, err)
	c, err := client.New(client.Config{Sessions: sessions, Token: strings.TrimSpace(string(token)), TLSFrom: from})
	require.NoError(t, err)
	c.Start()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()

	stored := func(n int) {
		t.Helper()
		p, err := c.Publish(ctx, "renewed", []string{fmt.Sprint(n)})
		require.NoError(t, err)
		require.NoError(t, p.Stored(ctx))
	}
	const first = 20
	for n := range first {
		stored(n)
	}
	fewest := make(chan int, 1)
	watching, stop := context.WithCancel(ctx)
	s, err := c.Subscribe("renewed")
	require.NoError(t, err)
	go func() {
		least := -1
		for {
			select {
			case d := <-s.C():
				if n := len(d.Values); least < 0 || n < least {
					least = n
				}
			case <-watching.Done():
				fewest <- least
				return
			}
		}
	}()
	n := first
	const pause = 1100 * time.Millisecond // a process reads its files at most once a second
	ca := filepath.Join(dir, "tls")
	began := t.TempDir()
	require.NoError(t, os.CopyFS(began, os.DirFS(h.TLSDir())))
	old, next := keepCA(t, ca), newCA(t)
	for _, phase := range []struct {
		name     string
		signer   authority   // signs the certificates
		trusted  []authority // are in every bundle
		restarts string
	}{
		{"renewed", old, []authority{old}, "session"},
		{"the new CA is trusted, too", old, []authority{old, next}, "data"},
		{"the new CA signs", next, []authority{next, old}, "session"},
		{"the old CA is gone", next, []authority{next}, "data"},
	} {
		phase.signer.replace(t, ca, phase.trusted)
		require.NoError(t, certs.Issue(ca, []string{"127.0.0.1", "localhost"}, certs.Valid))
		time.Sleep(pause)
		r := tool(t, "--dir", dir, "roll", "--role", phase.restarts)
		require.Equal(t, exitDone, r.code, "%s: %s", phase.name, r.stderr)
		for range 5 {
			stored(n)
			n++
		}
	}
	// It is read again when a second has passed, by the next connection.
	require.Eventually(t, func() bool {
		metas := strings.Join(must(h.Addresses("meta")), ",")
		return tool(t, "--tls-dir", began, "--meta", metas, "leader").code != exitDone && tool(t, "--dir", dir, "leader").code == exitDone
	}, time.Minute, 200*time.Millisecond, "a tool that has only the old CA does not trust the cluster")
	require.Eventually(t, func() bool {
		d, ok := s.Last()
		return ok && len(d.Values) == n
	}, time.Minute, 20*time.Millisecond)
	stop()
	assert.GreaterOrEqual(t, <-fewest, first, "no list has fewer than those that were stored before")
	assert.NoError(t, c.Close(ctx))
	assert.Equal(t, exitDone, tool(t, "--dir", dir, "down").code)
}

// authority is a CA: its certificate and its key, in PEM.
type authority struct{ cert, key []byte }

// newCA returns another development CA.
func newCA(t *testing.T) authority {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, certs.NewCA(dir, certs.CAValid))
	return keepCA(t, dir)
}

// keepCA returns the CA of a folder.
func keepCA(t *testing.T, dir string) authority {
	t.Helper()
	cert, err := os.ReadFile(filepath.Join(dir, certs.CAFile))
	require.NoError(t, err)
	key, err := os.ReadFile(filepath.Join(dir, certs.CAKeyFile))
	require.NoError(t, err)
	return authority{cert, key}
}

// replace makes the authority that of a folder, and trusted, which begins with it,
// the bundle that certs.Issue gives to every process.
func (a authority) replace(t *testing.T, dir string, trusted []authority) {
	t.Helper()
	var bundle []byte
	for _, one := range trusted {
		bundle = append(bundle, one.cert...)
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, certs.CAKeyFile), a.key, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, certs.CAFile), bundle, 0o644))
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// The nodes' connections go through proxies.
func TestUp_ConsoleOfAClusterWithTLS(t *testing.T) {
	if testing.Short() {
		t.Log("short: without real processes")
		return
	}
	realPrograms(t)
	dir := filepath.Join(t.TempDir(), "c")
	b := startConsole(t, "--dir", dir, "up", "--tls", "--console=127.0.0.1:0", "--meta-nodes", "2", "--data-nodes", "1", "--session-nodes", "1", "--slots", "16")
	assert.DirExists(t, filepath.Join(dir, "tls"))
	consoleActs(b)
}

// consoleActs lets a console's clients work, and lets it act.
func consoleActs(b *browser) {
	b.t.Helper()
	before := b.until("its clients receive what they publish", func(s console.State) bool {
		return s.Leader != "" && s.Load != nil && s.Load.Clients == 4 && s.Load.Pushes > 0
	})
	status, answer := b.post("/v1/act", "resign", before.Leader)
	require.Equal(b.t, http.StatusOK, status, answer)
	after := b.until("another one leads", func(s console.State) bool { return s.Term > before.Term && s.Leader != "" })
	assert.Nil(b.t, after.Broken)
}
