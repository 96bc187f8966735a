package devdb_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"os"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	_ "conclave/internal/bubble"
	"conclave/internal/devdb"
)

func TestMain(m *testing.M) {
	if dsn := os.Getenv("DEVDB_TEST_CLIENT"); dsn != "" {
		os.Exit(runClient(dsn, os.Args[len(os.Args)-1]))
	}
	goleak.VerifyTestMain(m)
}

// runClient makes this test binary a client: it executes one statement, prints
// that it has, and waits to be killed.
func runClient(dsn, statement string) int {
	db, err := sql.Open("mysql", dsn)
	if err == nil {
		fmt.Println("ready")
		_, err = db.Exec(statement)
	}
	if err != nil {
		fmt.Println("failed", err)
		return 1
	}
	fmt.Println("done")
	time.Sleep(time.Hour)
	return 0
}

// testLog writes a server's log into the test's.
func testLog(t *testing.T) hclog.Logger {
	return hclog.New(&hclog.LoggerOptions{Name: "devdb", Level: hclog.Info, Output: lines{t}})
}

type lines struct{ t *testing.T }

func (l lines) Write(p []byte) (int, error) {
	l.t.Logf("%s", p)
	return len(p), nil
}

// serve runs a server until the test ends or the returned function crashes it.
func serve(t *testing.T, cfg devdb.Config) (s *devdb.Server, crash func()) {
	t.Helper()
	if cfg.Listener == nil {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		cfg.Listener = l
	}
	cfg.Logger = testLog(t)
	s, err := devdb.New(cfg)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	crashed := false
	crash = func() {
		if crashed {
			return
		}
		crashed = true
		cancel()
		assert.ErrorIs(t, <-ended, context.Canceled, "the server was ended by the crash")
	}
	t.Cleanup(crash)
	return s, crash
}

// open returns a pool of connections to s.
func open(t *testing.T, s *devdb.Server) *sql.DB {
	t.Helper()
	db, err := sql.Open("mysql", s.DSN())
	require.NoError(t, err)
	t.Cleanup(func() { db.Close() })
	return db
}

// connect returns one connection and its id at the server.
func connect(t *testing.T, db *sql.DB) (*sql.Conn, uint32) {
	t.Helper()
	conn, err := db.Conn(context.Background())
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	return conn, one[uint32](t, conn, "SELECT CONNECTION_ID()")
}

type querier interface {
	QueryRowContext(context.Context, string, ...any) *sql.Row
	ExecContext(context.Context, string, ...any) (sql.Result, error)
}

// one returns the single value of a query's result.
func one[T any](t *testing.T, q querier, query string, args ...any) (v T) {
	t.Helper()
	require.NoError(t, q.QueryRowContext(context.Background(), query, args...).Scan(&v), query)
	return v
}

// run executes a statement and returns the number of rows that it changed.
func run(t *testing.T, q querier, query string, args ...any) int64 {
	t.Helper()
	r, err := q.ExecContext(context.Background(), query, args...)
	require.NoError(t, err, query)
	n, err := r.RowsAffected()
	require.NoError(t, err)
	return n
}

// number returns the MySQL number of an error, 0 if it has none.
func number(err error) uint16 {
	if e := (*mysql.MySQLError)(nil); errors.As(err, &e) {
		return e.Number
	}
	return 0
}

// Tables like those of the project.
const lockTable = `CREATE TABLE distribute_lock (
	id bigint unsigned NOT NULL AUTO_INCREMENT,
	data_center varchar(255) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
	lock_name varchar(1024) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
	owner varchar(255) NOT NULL,
	term bigint NOT NULL,
	beat bigint NOT NULL,
	duration bigint NOT NULL,
	nonce varchar(64) NULL,
	witness_lock varchar(64) NULL,
	witness_conn bigint unsigned NULL,
	resigned tinyint NOT NULL DEFAULT 0,
	gmt_create timestamp(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3),
	gmt_modified timestamp(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3),
	PRIMARY KEY (id),
	UNIQUE KEY uk_lock (data_center, lock_name)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin`

const lockRow = `INSERT INTO distribute_lock (data_center, lock_name, owner, term, beat, duration)
	VALUES ('dc', 'META', '', 0, 0, 3000)`
