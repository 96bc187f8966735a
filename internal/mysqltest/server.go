package mysqltest

import (
	"context"
	stdsql "database/sql"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"conclave/internal/devdb"
	"conclave/internal/long"
)

// Kind is a kind of database server.
type Kind string

// The kinds on which tests are run.
const (
	Embedded Kind = "embedded"
	MySQL    Kind = "mysql"
	MariaDB  Kind = "mariadb"
)

// single are the kinds of real servers that are not replicated.
var single = []Kind{MySQL, MariaDB}

// Server is a database server for one test.
type Server struct {
	Kind    Kind
	Version string // as the server reports it
	DSN     string // of the test's own database; its user has all rights

	container *container // nil for the embedded one
	root      *stdsql.DB
}

// Each runs a test on every kind of server, as one subtest each.
func Each(t *testing.T, test func(t *testing.T, s *Server)) {
	t.Run(string(Embedded), func(t *testing.T) { test(t, NewEmbedded(t)) })
	Real(t, test)
}

// Real runs a test on the real servers, as one subtest each.
func Real(t *testing.T, test func(t *testing.T, s *Server)) {
	startAll()
	for _, kind := range single {
		t.Run(string(kind), func(t *testing.T) { test(t, New(t, kind)) })
	}
}

// AtOnce runs a test on the real servers as Real does, but on both at the same time,
// because such a test mostly waits. It returns before they have ended: nothing may
// follow it in the test that calls it.
func AtOnce(t *testing.T, test func(t *testing.T, s *Server)) {
	for _, kind := range single {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			test(t, New(t, kind))
		})
	}
}

// Wanted reports whether real servers are requested (TEST_ALL=1).
func Wanted() bool { return long.All() }

// wanted reports whether servers of a kind are requested: TEST_SERVERS lists the kinds,
// separated by commas; without it, all are.
func wanted(kind Kind) bool {
	kinds, some := os.LookupEnv("TEST_SERVERS")
	return Wanted() && (!some || slices.Contains(strings.Split(kinds, ","), string(kind)))
}

// New returns a server with a database for the test, which is dropped when the
// test ends. If there is no such server, the test is skipped with a message, or
// fails.
func New(t testing.TB, kind Kind) *Server {
	t.Helper()
	if kind == Embedded {
		return NewEmbedded(t)
	}
	return database(t, kind, find(t, kind, hosts[kind]))
}

// NewAlone returns a server that no other test uses. It has a small disk (FillDisk), and
// resolves names, so that it can block a host (max_connect_errors).
func NewAlone(t testing.TB, kind Kind) *Server {
	t.Helper()
	c := find(t, kind, func() (*container, error) { return runAs(kind, true) })
	t.Cleanup(func() { require.NoError(t, c.remove()) })
	return database(t, kind, c)
}

// database makes a database for the test.
func database(t testing.TB, kind Kind, c *container) *Server {
	t.Helper()
	name := fmt.Sprintf("conclave_test_%d_%d", os.Getpid(), databases.Add(1))
	s := &Server{Kind: kind, Version: c.version, container: c, root: c.root}
	config := c.config()
	config.DBName = name
	s.DSN = config.FormatDSN()
	s.Exec(t, "CREATE DATABASE "+name)
	t.Cleanup(func() {
		if err := s.try("DROP DATABASE " + name); err != nil {
			t.Errorf("mysqltest: drop the test's database: %v", err)
		}
	})
	return s
}

// databases counts the databases of this process, so that their names differ.
var databases atomic.Int64

// Exec runs a statement as the server's administrator.
func (s *Server) Exec(t testing.TB, statement string, args ...any) {
	t.Helper()
	require.NoError(t, s.try(statement, args...), statement)
}

// try is Exec for a statement that may fail.
func (s *Server) try(statement string, args ...any) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_, err := s.root.ExecContext(ctx, statement, args...)
	return err
}

// Reconnect ends the administrator's idle connections. A connection has the variables that
// were global when it was opened: with autocommit = 0, the next test would see nothing of
// what Exec has written on another.
func (s *Server) Reconnect() {
	s.root.SetMaxIdleConns(0)
	s.root.SetMaxIdleConns(2) // the default
}

// NeedsContainer skips a test that pauses or restarts the server, or changes its
// settings, if the server is the embedded one.
func (s *Server) NeedsContainer(t testing.TB) {
	t.Helper()
	if s.container == nil {
		t.Skipf("the %s server is no container: it cannot be paused or restarted", s.Kind)
	}
}

// CA returns a file with the CA of the server's certificate, which is valid for the
// address of the DSN. It skips the test like NeedsContainer.
func (s *Server) CA(t testing.TB) string {
	t.Helper()
	s.NeedsContainer(t)
	file := filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(file, s.container.ca, 0o600))
	return file
}

// Pause suspends the server while its sockets stay open, like a machine that
// stands still. The server continues when resume is called or the test ends.
func (s *Server) Pause(t testing.TB) (resume func()) {
	t.Helper()
	s.NeedsContainer(t)
	resume, err := s.container.pause()
	require.NoError(t, err, "pause the container")
	t.Cleanup(resume)
	return resume
}

// FillDisk fills the disk of a server of NewAlone to the last byte, until free is called.
func (s *Server) FillDisk(t testing.TB) (free func()) {
	t.Helper()
	const file = dataDir + "/fill"
	require.NoError(t, s.container.sh("dd if=/dev/zero bs=1M >"+file+"; dd if=/dev/zero bs=512 >>"+file+"; true"))
	return func() { require.NoError(t, s.container.sh("rm -f "+file)) }
}

// Restart kills the server's process and starts it again with the same data and
// port. It returns when the server answers.
func (s *Server) Restart(t testing.TB) { s.restart(t, slay) }

// Reboot restarts the server as an operator does: it ends its connections and stops in
// order. It returns when the server answers again.
func (s *Server) Reboot(t testing.TB) { s.restart(t, stop) }

func (s *Server) restart(t testing.TB, end string) {
	t.Helper()
	s.NeedsContainer(t)
	require.NoError(t, s.container.sh(end), "end the server")
	require.NoError(t, ready(s.root, startTimeout), "the server after its restart")
}

// RenewCertificate gives the server a certificate of a new CA, which it returns in PEM.
// Connections that are open stay.
func (s *Server) RenewCertificate(t testing.TB) (ca []byte) {
	t.Helper()
	s.NeedsContainer(t)
	issued, err := s.container.issueCerts()
	require.NoError(t, err)
	for i, file := range []string{"ca.pem", "cert.pem", "key.pem"} {
		_, text, _ := strings.Cut(issued[i], "=")
		require.NoError(t, s.container.sh("cat >/tmp/tls/"+file+" <<END\n"+text+"\nEND"))
	}
	s.Exec(t, map[Kind]string{MySQL: "ALTER INSTANCE RELOAD TLS", MariaDB: "FLUSH SSL"}[s.Kind])
	return s.container.ca
}

// Inside returns the host at which another container reaches the server's port 3306.
func (s *Server) Inside(t testing.TB) string {
	t.Helper()
	s.NeedsContainer(t)
	return s.container.res.Container.NetworkSettings.Networks["bridge"].IPAddress
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

// open returns a pool for the administrator's statements, without a database.
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

// quiet drops the driver's log messages while a server is starting.
type quiet struct{}

func (quiet) Print(...any) {}

// NewEmbedded runs an embedded server until the test ends.
func NewEmbedded(t testing.TB) *Server {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	dsn := ServeEmbedded(t, devdb.Config{Listener: listener})
	config, err := mysql.ParseDSN(dsn)
	require.NoError(t, err)
	root, err := open(config)
	require.NoError(t, err)
	t.Cleanup(func() { root.Close() })
	return &Server{Kind: Embedded, Version: "embedded", DSN: dsn, root: root}
}

// ForExample runs an embedded server until stop is called, for examples, which
// have no testing.TB. It panics if it cannot.
func ForExample() (dsn string, stop func()) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	server, end, err := serve(devdb.Config{Listener: listener})
	if err != nil {
		panic(err)
	}
	return server.DSN(), func() { _ = end() } // the example fails without it
}

// ServeEmbedded runs an embedded server with the configuration until the test
// ends. It may be called in a bubble with a listener in memory. The DSN's user
// is root.
func ServeEmbedded(t testing.TB, cfg devdb.Config) (dsn string) {
	t.Helper()
	_, end, err := serve(cfg)
	require.NoError(t, err)
	t.Cleanup(func() {
		if err := end(); !errors.Is(err, context.Canceled) {
			t.Errorf("the embedded server ended with %v", err)
		}
	})
	return "root@tcp(" + cfg.Listener.Addr().String() + ")/conclave"
}

// serve runs an embedded server until end is called, as in a crash.
func serve(cfg devdb.Config) (server *devdb.Server, end func() error, err error) {
	server, err = devdb.New(cfg)
	if err != nil {
		return nil, nil, err
	}
	ctx, crash := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx) }()
	return server, func() error { crash(); return <-ended }, nil
}
