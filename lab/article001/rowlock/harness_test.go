package rowlock_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/elector/electortest/sqlworld"
	"conclave/internal/mysqltest"
	"conclave/lab/article001/rowlock"
	conclavesql "conclave/sql"
)

func TestMain(m *testing.M) { mysqltest.Main(m) }

// world is a database with this package's tables.
type world struct{ *sqlworld.World }

// inBubble runs a test on the embedded server, in virtual time.
func inBubble(t *testing.T, test func(t *testing.T, w *world)) {
	sqlworld.InBubble(t, func(t *testing.T, w *sqlworld.World) { test(t, &world{w}) })
}

// What another process of the article's form sends.
var (
	articleAcquireSQL = conclavesql.Statement(os.DirFS("sql"), "article_acquire.sql")
	articleFindSQL    = conclavesql.Statement(os.DirFS("sql"), "article_find.sql")
)

func TestConfigIsChecked(t *testing.T) {
	db, err := conclavesql.Open("root@tcp(127.0.0.1:1)/x", conclavesql.Options{})
	require.NoError(t, err)
	defer db.Close()
	me := conclave.NodeID{Name: "a", Incarnation: "1"}
	for name, cfg := range map[string]rowlock.LocksConfig{
		"DB is missing":  {Owner: me},
		"an incarnation": {DB: db, Owner: conclave.NodeID{Name: "a"}},
		"Lease 1ms":      {DB: db, Owner: me, Lease: time.Millisecond},
		"Refresh 5s must be positive and at most": {DB: db, Owner: me, Refresh: 5 * time.Second},
	} {
		_, err := rowlock.NewLocks(cfg)
		require.ErrorContains(t, err, name)
	}
	_, err = rowlock.NewRegistry(rowlock.RegistryConfig{DB: db})
	require.Error(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	require.ErrorIs(t, rowlock.Migrate(ctx, db), conclavesql.ErrUnavailable)
}
