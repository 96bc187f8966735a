package sql_test

import (
	"context"
	"errors"
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"conclave/internal/devdb"
	conclavesql "conclave/sql"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// servers runs a test on the embedded server and, when MYSQL_DSN is set, on that
// one too.
func servers(t *testing.T, test func(t *testing.T, dsn string)) {
	t.Run("embedded", func(t *testing.T) { test(t, embedded(t, devdb.Config{})) })
	if dsn := os.Getenv("MYSQL_DSN"); dsn != "" {
		t.Run("mysql", func(t *testing.T) { test(t, dsn) })
	}
}

// embedded runs a server on a port of its own until the test ends.
func embedded(t *testing.T, cfg devdb.Config) (dsn string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	cfg.Listener = listener
	server, err := devdb.New(cfg)
	require.NoError(t, err)
	ctx, crash := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx) }()
	t.Cleanup(func() {
		crash()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("the embedded server ended with %v", err)
		}
	})
	return "root@tcp(" + listener.Addr().String() + ")/conclave"
}

// open opens a database with patience: these tests are not about deadlines.
func open(t *testing.T, dsn string) *conclavesql.DB {
	t.Helper()
	db, err := conclavesql.Open(dsn, conclavesql.Options{Deadline: 10 * time.Second})
	require.NoError(t, err)
	t.Cleanup(func() { db.Close() })
	return db
}

// migrated opens a database and makes a lock of the test's own.
func migrated(t *testing.T, dsn string) (*conclavesql.DB, conclavesql.Lock) {
	t.Helper()
	db := open(t, dsn)
	lock := conclavesql.Lock{DataCenter: "test", Name: t.Name() + time.Now().Format("/150405.000000")}
	require.NoError(t, db.Migrate(t.Context(), lock))
	return db, lock
}

// elect makes owner the leader of term, without an election.
func elect(t *testing.T, db *conclavesql.DB, lock conclavesql.Lock, owner string, term uint64) conclavesql.Fence {
	t.Helper()
	n, err := db.Exec(t.Context(), "UPDATE distribute_lock SET owner = ?, term = ? WHERE data_center = ? AND lock_name = ?",
		owner, term, lock.DataCenter, lock.Name)
	require.NoError(t, err)
	require.Equal(t, int64(1), n)
	return conclavesql.Fence{Owner: owner, Term: term}
}
