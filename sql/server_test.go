package sql_test

import (
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"conclave/internal/devdb"
	"conclave/internal/mysqltest"
	conclavesql "conclave/sql"
)

func TestMain(m *testing.M) {
	if dsn := os.Getenv(migratorEnv); dsn != "" {
		migrator(dsn) // this test binary runs as a migrating process
		return
	}
	mysqltest.Main(m)
}

// servers runs a test on every server.
func servers(t *testing.T, test func(t *testing.T, dsn string)) {
	mysqltest.Each(t, func(t *testing.T, s *mysqltest.Server) { test(t, s.DSN) })
}

// embedded runs an embedded server with its own configuration until the test
// ends.
func embedded(t *testing.T, cfg devdb.Config) (dsn string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	cfg.Listener = listener
	return mysqltest.ServeEmbedded(t, cfg)
}

// open opens a database with a long deadline.
func open(t *testing.T, dsn string) *conclavesql.DB {
	t.Helper()
	return openWith(t, dsn, conclavesql.Options{Deadline: 10 * time.Second})
}

func openWith(t *testing.T, dsn string, opts conclavesql.Options) *conclavesql.DB {
	t.Helper()
	db, err := conclavesql.Open(dsn, opts)
	require.NoError(t, err)
	t.Cleanup(func() { db.Close() })
	return db
}

// migrated opens a database and creates a lock for the test.
func migrated(t *testing.T, dsn string) (*conclavesql.DB, conclavesql.Lock) {
	t.Helper()
	db := open(t, dsn)
	lock := conclavesql.Lock{DataCenter: "test", Name: t.Name()}
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

// read returns one kind of state.
func read(t *testing.T, db *conclavesql.DB, lock conclavesql.Lock, kind conclavesql.Kind) conclavesql.State {
	t.Helper()
	states, err := conclavesql.NewStateStore(db, lock).Read(t.Context())
	require.NoError(t, err)
	return states[kind]
}
