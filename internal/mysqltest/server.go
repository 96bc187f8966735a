package mysqltest

import (
	"context"
	stdsql "database/sql"
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"
)

// Kind is one row of the table of servers.
type Kind string

// The servers on which everything is played.
const (
	Embedded Kind = "embedded"
	MySQL    Kind = "mysql"
	MariaDB  Kind = "mariadb"
)

// Server is a database server as one test sees it.
type Server struct {
	Kind    Kind
	Version string // what it says of itself
	DSN     string // of a database of this test's own; its user may do anything

	host *host // the server behind it; nil for the embedded one
	root *stdsql.DB
}

// Each plays a test on every server, one subtest for each.
func Each(t *testing.T, test func(t *testing.T, s *Server)) {
	t.Run(string(Embedded), func(t *testing.T) { test(t, NewEmbedded(t)) })
	Real(t, test)
}

// Real plays a test on the real servers, one subtest for each.
func Real(t *testing.T, test func(t *testing.T, s *Server)) {
	for _, kind := range []Kind{MySQL, MariaDB} {
		t.Run(string(kind), func(t *testing.T) { test(t, New(t, kind)) })
	}
}

// Wanted says whether real servers are asked for.
func Wanted() bool { return os.Getenv("TEST_ALL") == "1" }

// New is a server with a database of the test's own, which is dropped when the test
// is over. When there is no such server here the test is skipped, aloud, or fails.
func New(t testing.TB, kind Kind) *Server {
	t.Helper()
	if kind == Embedded {
		return NewEmbedded(t)
	}
	h := find(t, kind)
	name := fmt.Sprintf("conclave_test_%d_%d", os.Getpid(), databases.Add(1))
	s := &Server{Kind: kind, Version: h.version, host: h, root: h.root}
	config := h.config.Clone()
	config.DBName = name
	s.DSN = config.FormatDSN()
	s.Exec(t, "CREATE DATABASE "+name)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if _, err := h.root.ExecContext(ctx, "DROP DATABASE "+name); err != nil {
			t.Errorf("mysqltest: drop the test's database: %v", err)
		}
	})
	return s
}

// databases counts the databases made by this process: their names differ.
var databases atomic.Int64

// Exec runs a statement as the server's administrator.
func (s *Server) Exec(t testing.TB, statement string, args ...any) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	_, err := s.root.ExecContext(ctx, statement, args...)
	require.NoError(t, err, statement)
}

// NeedsContainer ends a test that is about pausing or restarting the server, where
// the server is not ours: aloud.
func (s *Server) NeedsContainer(t testing.TB) {
	t.Helper()
	if s.host == nil || s.host.container == nil {
		missing(t, fmt.Sprintf("the %s server is not a container of ours: it can not be paused or restarted", s.Kind))
	}
}

// Pause stops the server in the middle of whatever it does, as a frozen machine: its
// sockets stay open. It goes on when resume is called, or when the test is over.
func (s *Server) Pause(t testing.TB) (resume func()) {
	t.Helper()
	s.NeedsContainer(t)
	resume, err := s.host.container.pause()
	require.NoError(t, err, "pause the container")
	t.Cleanup(resume)
	return resume
}

// Restart kills the server's process and starts it again on the same data and the
// same port; it returns when the server answers.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	s.NeedsContainer(t)
	require.NoError(t, s.host.container.restart(), "restart the container")
	require.NoError(t, ready(s.root, patience), "the server after its restart")
}

// ready waits until the server answers.
func ready(db *stdsql.DB, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	for {
		try, end := context.WithTimeout(ctx, time.Second)
		err := db.PingContext(try)
		end()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("no answer within %v: %w", limit, err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// open prepares a way in, without a database, for what tests do as administrators.
func open(config *mysql.Config) (*stdsql.DB, error) {
	config = config.Clone()
	config.DBName = ""
	config.InterpolateParams = true
	config.Logger = quiet{}
	connector, err := mysql.NewConnector(config)
	if err != nil {
		return nil, fmt.Errorf("mysqltest: %w", err)
	}
	return stdsql.OpenDB(connector), nil
}

// quiet drops the driver's complaints about a server that is still starting.
type quiet struct{}

func (quiet) Print(...any) {}
