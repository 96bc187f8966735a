package sql_test

import (
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	_ "conclave/internal/bubble" // one processor under the race detector
	"conclave/internal/devdb"
	"conclave/internal/mysqltest"
	conclavesql "conclave/sql"
	"conclave/testbed/simulated/simnet"
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

// onEach runs a test on every server; on the embedded one, in a bubble, over a network in
// memory. open opens the database.
func onEach(t *testing.T, test func(t *testing.T, open func(t *testing.T) *conclavesql.DB)) {
	t.Run(string(mysqltest.Embedded), func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			network := simnet.New(1)
			listener, err := network.Host("db").Listen(t.Context(), "tcp", "db:3306")
			require.NoError(t, err)
			dsn := mysqltest.ServeEmbedded(t, devdb.Config{Listener: listener})
			test(t, func(t *testing.T) *conclavesql.DB {
				return openWith(t, dsn, conclavesql.Options{Dial: network.Host("clients").DialContext, Deadline: 10 * time.Second})
			})
		})
	})
	mysqltest.Real(t, func(t *testing.T, s *mysqltest.Server) {
		test(t, func(t *testing.T) *conclavesql.DB { return open(t, s.DSN) })
	})
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
	return migratedOn(t, open(t, dsn))
}

// migratedOn creates a lock for the test.
func migratedOn(t *testing.T, db *conclavesql.DB) (*conclavesql.DB, conclavesql.Lock) {
	t.Helper()
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
