package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/elector"
	"conclave/elector/termcas"
	"conclave/internal/cli/clitest"
	"conclave/internal/mysqltest"
	conclavesql "conclave/sql"
)

// An election that belongs to no cluster is watched by its rows: its leaders and why
// each of them leads, also before its tables are there.
func TestElectionWatch_OfAnyDatabase(t *testing.T) {
	dsn := mysqltest.NewEmbedded(t).DSN
	file := filepath.Join(t.TempDir(), "dsn")
	require.NoError(t, os.WriteFile(file, []byte(dsn+"\n"), 0o600))
	ctx, cancel := context.WithCancel(t.Context())
	out := &clitest.Output{}
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, []string{"election", "watch", "--dsn-file", file, "--data-center", "shop", "--lock", "nightly", "--every", "100ms"}, out, out)
	}()
	shows := func(text string) {
		t.Helper()
		require.Eventually(t, func() bool { return strings.Contains(out.String(), text) }, 20*time.Second, 5*time.Millisecond, "%s in %s", text, out)
	}
	shows("Migrate")

	db, err := conclavesql.Open(dsn, conclavesql.Options{})
	require.NoError(t, err)
	defer db.Close()
	lock := conclavesql.Lock{DataCenter: "shop", Name: "nightly"}
	require.NoError(t, db.Migrate(t.Context(), lock))
	for _, name := range []string{"worker-1", "worker-2"} {
		strategy, err := termcas.New(termcas.Config{DB: db, Lock: lock})
		require.NoError(t, err)
		e, err := elector.New(elector.Config{ID: conclave.NodeID{Name: name}, Strategy: strategy})
		require.NoError(t, err)
		leads := make(chan error, 1)
		leading, stop := context.WithCancel(t.Context())
		go func() { leads <- e.Run(leading) }()
		shows(name + "@")
		stop()
		require.NoError(t, <-leads)
	}
	shows("no leader after term 2")
	cancel()
	assert.Zero(t, <-ended)
	assert.Contains(t, out.String(), "leads term 2")
	assert.Contains(t, out.String(), "(resigned, ")
}

func TestElectionWatch_InvalidUsage(t *testing.T) {
	for _, args := range [][]string{{}, {"--dsn", "nonsense"}, {"--dsn", "root@tcp(127.0.0.1:1)/x", "--every", "1ms"}, {"--dsn", "root@tcp(127.0.0.1:1)/x", "--lock", ""}} {
		out := &clitest.Output{}
		assert.Equal(t, 2, run(t.Context(), append([]string{"election", "watch"}, args...), out, out), "%v: %s", args, out)
	}
}
