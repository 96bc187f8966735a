package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/client"
	"conclave/internal/certs"
	"conclave/testbed/local/supervisor"
)

// Certificates are renewed while clients publish and each session is restarted,
// so that every connection of clients is made again: no list lacks a
// registration that was stored.
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
	for range 2 {
		require.NoError(t, certs.Issue(filepath.Join(dir, "tls"), []string{"127.0.0.1", "localhost"}, certs.Valid))
		r := tool(t, "--dir", dir, "roll", "--role", "session")
		require.Equal(t, exitDone, r.code, r.stderr)
		for range 5 {
			stored(n)
			n++
		}
	}
	require.Eventually(t, func() bool {
		d, ok := s.Last()
		return ok && len(d.Values) == n
	}, time.Minute, 20*time.Millisecond)
	stop()
	assert.GreaterOrEqual(t, <-fewest, first, "no list has fewer than those that were stored before")
	assert.NoError(t, c.Close(ctx))
	assert.Equal(t, exitDone, tool(t, "--dir", dir, "down").code)
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
