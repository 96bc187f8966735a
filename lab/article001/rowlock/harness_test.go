package rowlock_test

import (
	"context"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/elector"
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

const key = "the leader"

// What another process of the article's form sends.
var (
	articleAcquireSQL = conclavesql.Statement(os.DirFS("sql"), "article_acquire.sql")
	articleFindSQL    = conclavesql.Statement(os.DirFS("sql"), "article_find.sql")
)

// suite describes the repaired form.
var suite = sqlworld.Suite{
	Migrate: rowlock.Migrate,
	Strategy: func(db *conclavesql.DB, _ *slog.Logger) (elector.Strategy, error) {
		return rowlock.New(rowlock.Config{DB: db, Key: key})
	},
	Lock: "row_lock l ON l.lock_key = ?", Key: key, Term: "id",
}

// TestConformance runs the suite with the repaired form.
func TestConformance(t *testing.T) { suite.Run(t) }

func TestConfigIsChecked(t *testing.T) {
	db, err := conclavesql.Open("root@tcp(127.0.0.1:1)/x", conclavesql.Options{})
	require.NoError(t, err)
	defer db.Close()
	for name, cfg := range map[string]rowlock.Config{
		"DB is missing": {Key: "k"},
		`key ""`:        {DB: db},
		"ASCII":         {DB: db, Key: "schlüssel"},
	} {
		_, err := rowlock.New(cfg)
		require.ErrorContains(t, err, name)
	}
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
