package devdb

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	sqle "github.com/dolthub/go-mysql-server"
	"github.com/dolthub/go-mysql-server/memory"
	"github.com/dolthub/go-mysql-server/server"
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/mysql"
	vtlog "github.com/dolthub/vitess/go/vt/log"
	driver "github.com/go-sql-driver/mysql"
	"github.com/hashicorp/go-hclog"
	"github.com/sirupsen/logrus"
)

// Config says where the server listens and what it keeps.
type Config struct {
	// Listener is where clients come from: TCP, or a network in memory. Required. The server closes it.
	Listener net.Listener
	// File keeps the tables across restarts; empty keeps them in memory only. A writing statement is answered after
	// its effect is in the file (written aside, synced, renamed).
	File string
	// Tables keeps the tables across restarts within one program, as File does across programs: a simulation's disk.
	// Not together with File. One server at a time may have them.
	Tables *Tables
	// Now is the clock of NOW() and its kind, which a simulation steps. nil is time.Now. Waits and limits go by
	// package time, as a machine's do whatever its wall clock says.
	Now func() time.Time
	// Database is created when it does not exist. Default "conclave".
	Database string
	// User and Password are asked of every client. Both empty: anyone who can connect is root, so listen on loopback.
	User, Password string
	// LockWait is how long a statement waits for the gate before it fails with error 1205. Default 3 s. A transaction
	// that stands idle for half of it while others wait is rolled back and its connection closed: half, so that those
	// behind it get their turn and not the error.
	LockWait time.Duration
	// Around, if any, hears of every statement before it waits for its turn, from which address it came, and may keep
	// it waiting; what it returns, unless nil, hears how many rows were changed, while no other statement is under way. For
	// simulations: a statement goes on whatever becomes of its connection.
	Around func(from net.Addr, query string) (done func(changed uint64, err error))
	// Logger is optional.
	Logger hclog.Logger
}

func (c Config) withDefaults() Config {
	if c.Database == "" {
		c.Database = "conclave"
	}
	if c.User == "" {
		c.User = "root"
	}
	if c.LockWait == 0 {
		c.LockWait = 3 * time.Second
	}
	if c.Logger == nil {
		c.Logger = hclog.NewNullLogger()
	}
	if c.Tables == nil {
		c.Tables = NewTables()
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return c
}

// Validate names what cannot be.
func (c Config) Validate() error {
	switch {
	case c.Listener == nil:
		return errors.New("devdb: Config.Listener is missing")
	case c.LockWait < 0:
		return fmt.Errorf("devdb: Config.LockWait %v is below zero", c.LockWait)
	case c.Tables != nil && c.File != "":
		return errors.New("devdb: Config.Tables and Config.File exclude each other")
	}
	return nil
}

// Server is a MySQL server for one process. See the package comment for what it promises.
type Server struct {
	cfg     Config
	log     hclog.Logger
	engine  *sqle.Engine
	wire    *server.Server
	sockets *listener
	gate    *gate
	locks   *lockTable
	store   *store

	statements atomic.Uint64

	stop   chan struct{} // closed by the first Shutdown
	hasten chan struct{} // closed by a Shutdown that ran out of time
	done   chan struct{} // closed when Run has returned, or will not be run
	failed chan error    // the failure that ends Run; holds one

	mu      sync.Mutex         // guards the fields below
	clients map[uint32]*client // by connection id
	state   int                // idle, running or over
	hurried bool               // hasten is closed
}

const (
	idle = iota
	running
	over
)

// hush keeps the engine's own loggers off the process's stderr, once and before any server runs: they report every
// client that hangs up. What matters is logged by this package.
var hush sync.Once

// making lets one server be made at a time: the engine registers what it knows in
// tables of its own package, without a lock.
var making sync.Mutex

// New loads the file and prepares the server. Nothing is served before Run.
func New(cfg Config) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	open := cfg.User == "" && cfg.Password == ""
	cfg = cfg.withDefaults()
	making.Lock()
	defer making.Unlock()
	hush.Do(func() {
		logrus.SetOutput(io.Discard)
		logrus.SetLevel(logrus.PanicLevel)
		vtlog.Error = func(...any) {}
		vtlog.Errorf = func(format string, args ...any) {
			if strings.Contains(format, "panic") { // it survives one, by closing the connection; we want to know
				log.Printf("devdb: "+format, args...)
			}
		}
		vtlog.Warning, vtlog.Warningf = func(...any) {}, func(string, ...any) {}
	})
	s := &Server{
		cfg:     cfg,
		log:     cfg.Logger,
		sockets: newListener(cfg.Listener),
		gate:    newGate(cfg.LockWait),
		locks:   newLockTable(),
		stop:    make(chan struct{}),
		hasten:  make(chan struct{}),
		done:    make(chan struct{}),
		failed:  make(chan error, 1),
		clients: make(map[uint32]*client),
	}
	tables := cfg.Tables.provider
	s.engine = sqle.NewDefault(&provider{DbProvider: tables, functions: s.functions()})
	if !open {
		users := s.engine.Analyzer.Catalog.MySQLDb
		editor := users.Editor()
		users.AddSuperUser(editor, cfg.User, "%", cfg.Password)
		editor.Close()
	}
	var err error
	if s.store, err = openStore(cfg.File, cfg.Database, s.engine, tables); err != nil {
		return nil, err
	}
	// A nil context factory compiles, and panics at the first connection.
	s.wire, err = server.NewServerWithHandler(server.Config{Listener: s.sockets}, s.engine, s.newContext, s.session(tables), nil,
		func(engine mysql.Handler) (mysql.Handler, error) { return &handler{server: s, engine: engine}, nil })
	if err != nil {
		s.store.close()
		return nil, fmt.Errorf("devdb: %w", err)
	}
	return s, nil
}

// newContext is a context of the engine for one statement: what time it is is decided here.
func (s *Server) newContext(ctx context.Context, opts ...sql.ContextOption) *sql.Context {
	c := sql.NewContext(ctx, opts...)
	c.SetQueryTime(s.cfg.Now())
	return c
}

// session builds what the engine knows of a connection, and keeps it at hand for the gate.
func (s *Server) session(tables *memory.DbProvider) server.SessionBuilder {
	build := memory.NewSessionBuilder(tables)
	return func(ctx context.Context, conn *mysql.Conn, addr string) (sql.Session, error) {
		session, err := build(ctx, conn, addr)
		if err == nil {
			conn.ClientData.(*client).session = session.(*memory.Session)
		}
		return session, err
	}
}

// Run serves until Shutdown (it then returns nil), until ctx is cancelled (a crash: every connection is cut, ctx.Err is
// returned), or until the file cannot be written (that error). All its goroutines have ended when it returns.
func (s *Server) Run(ctx context.Context) error {
	s.mu.Lock()
	was := s.state
	s.state = max(s.state, running)
	s.mu.Unlock()
	switch was {
	case over:
		return nil
	case running:
		return errors.New("devdb: Run was called twice")
	}
	defer close(s.done)
	defer s.store.close()
	defer s.engine.Close()

	var serving, leaving sync.WaitGroup
	refused := make(chan struct{}) // closed when no connection is accepted any more
	serving.Go(func() {
		defer close(refused)
		s.wire.Listener.Accept()
	})
	var err error
	select {
	case <-s.stop:
		err = nil
	case <-ctx.Done():
		err = ctx.Err()
	case err = <-s.failed:
	case <-refused:
		err = errors.New("devdb: the listener was closed from outside")
	}
	// 1. Nobody new.
	s.wire.Listener.Close()
	serving.Wait()
	// 2. After Shutdown, those inside finish their statement.
	if err == nil {
		s.sockets.drain()
		gone := make(chan struct{})
		leaving.Go(func() {
			s.sockets.alive.Wait()
			close(gone)
		})
		select {
		case <-gone:
		case <-s.hasten:
		case <-ctx.Done():
			err = ctx.Err()
		case err = <-s.failed:
		}
	}
	// 3. Everybody out.
	s.sockets.closeAll()
	s.sockets.alive.Wait()
	leaving.Wait()
	return err
}

// Shutdown ends the server: no new connections; statements under way are answered; idle connections are closed, which
// rolls their transactions back; who waits for a named lock gets error 1053. It returns once Run has, with ctx.Err()
// if the last connections had to be cut.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	was := s.state
	s.state = over
	s.mu.Unlock()
	switch was {
	case idle:
		close(s.stop)
		close(s.done)
		s.store.close()
		s.engine.Close()
		return s.cfg.Listener.Close()
	case running:
		close(s.stop)
	}
	select {
	case <-s.done:
		return nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	if !s.hurried {
		s.hurried = true
		close(s.hasten)
	}
	s.mu.Unlock()
	<-s.done
	return ctx.Err()
}

// fail ends Run as a crash would.
func (s *Server) fail(err error) {
	select {
	case s.failed <- err:
		s.log.Error("giving up: what is in memory may not be in the file", "error", err)
	default:
	}
}

// Addr is the listener's address.
func (s *Server) Addr() net.Addr { return s.cfg.Listener.Addr() }

// DSN is what go-sql-driver/mysql connects with: text protocol (a statement that timed out on its way is one statement,
// not a PREPARE and an EXECUTE), times in UTC on both sides. For a listener in memory set mysql.Config.DialFunc.
func (s *Server) DSN() string {
	c := driver.NewConfig()
	c.User, c.Passwd, c.Net, c.Addr, c.DBName = s.cfg.User, s.cfg.Password, "tcp", s.Addr().String(), s.cfg.Database
	c.InterpolateParams, c.ParseTime, c.Loc = true, true, time.UTC
	c.Params = map[string]string{"time_zone": "'+00:00'"}
	return c.FormatDSN()
}

// Statements counts the statements executed since New, as MySQL's status variable Questions does: COM_STMT_PREPARE and
// pings are not among them.
func (s *Server) Statements() uint64 { return s.statements.Load() }

// client is the connection for which the engine evaluates.
func (s *Server) client(ctx *sql.Context) *client {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.clients[ctx.Session.ID()]
}
