package devdb

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"runtime"
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

// Config configures a Server.
type Config struct {
	// Listener accepts the clients' connections: TCP or a network in memory.
	// Required. The server closes it.
	Listener net.Listener
	// File stores the tables across restarts; if empty they are only in memory.
	// The answer to a statement that writes is sent after its effect is in the
	// file (appended, synced).
	File string
	// Tables stores the tables across restarts within one program, as File does
	// across programs: the disk of a simulation. It excludes File. Only one
	// server at a time may use it.
	Tables *Tables
	// Now is the clock of NOW() and similar functions, which a simulation can
	// set. nil means time.Now. Waits and limits use package time, as they do
	// not depend on a machine's wall clock either.
	Now func() time.Time
	// Database is created if it does not exist. Default "conclave".
	Database string
	// User and Password are required of every client. If both are empty, any
	// client that can connect is root, so listen on loopback only.
	User, Password string
	// LockWait is how long a statement waits for the gate before it fails with
	// error 1205. Default 3 s. A transaction that is idle for half of it while
	// others wait is rolled back and its connection closed. It is half so that
	// the waiting statements are executed instead of failing.
	LockWait time.Duration
	// Around, if set, is called for every statement before the statement waits
	// for the gate, with the client's address, and may block it. The function
	// that it returns, unless nil, is called with the number of changed rows
	// before any other statement is executed. It is for simulations: a
	// statement is executed even if its connection breaks. If it returns an
	// error, that is the answer, and the statement is not executed.
	Around func(from net.Addr, query string) (done func(changed uint64, err error), refusal error)
	// Rewrite, if set, returns the text that is executed instead of a query's. It is for
	// simulations of a statement without one of its predicates.
	Rewrite func(query string) string
	// Logger is optional.
	Logger hclog.Logger
}

// Refusal returns an error with one of MySQL's numbers, for Config.Around.
func Refusal(number int, text string) error {
	return mysql.NewSQLError(number, "HY000", "%s", text)
}

func (c Config) withDefaults() Config {
	c.Database = cmp.Or(c.Database, "conclave")
	c.User = cmp.Or(c.User, "root")
	c.LockWait = cmp.Or(c.LockWait, 3*time.Second)
	if c.Rewrite == nil {
		c.Rewrite = func(query string) string { return query }
	}
	c.Logger = cmp.Or(c.Logger, hclog.NewNullLogger())
	if c.Tables == nil {
		c.Tables = NewTables()
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return c
}

// Validate returns an error that names the first invalid field.
func (c Config) Validate() error {
	switch {
	case c.Listener == nil:
		return errors.New("devdb: Config.Listener is nil")
	case c.LockWait < 0:
		return fmt.Errorf("devdb: Config.LockWait is %v: want 0 or more", c.LockWait)
	case c.Tables != nil && c.File != "":
		return errors.New("devdb: Config.Tables and Config.File exclude each other")
	}
	return nil
}

// Server is a MySQL server. The package comment describes its guarantees.
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
	hasten chan struct{} // closed by hurry
	hurry  func()        // called by a Shutdown that ran out of time
	done   chan struct{} // closed when Run has returned or will not run
	failed chan error    // the error that ends Run; capacity 1

	mu      sync.Mutex         // guards the fields below
	clients map[uint32]*client // by connection id
	state   int                // idle, running or stopped
}

const (
	idle = iota
	running
	stopped
)

// silenceEngine disables the engine's own lines, once and before any server runs. They
// report every client that disconnects to the process's stderr; this package logs what
// matters. The engine has no logger of its own but logrus's, which the program may use:
// only its formatter and output are wrapped.
var silenceEngine sync.Once

// withoutEngine formats no line of the engine.
type withoutEngine struct{ logrus.Formatter }

func (f withoutEngine) Format(e *logrus.Entry) ([]byte, error) {
	var callers [16]uintptr // the innermost is this one, then those of logrus
	frames := runtime.CallersFrames(callers[:runtime.Callers(1, callers[:])])
	for frame, more := frames.Next(); more; frame, more = frames.Next() {
		if strings.HasPrefix(frame.Function, "github.com/dolthub/") {
			return nil, nil
		}
	}
	return f.Formatter.Format(e)
}

// withoutEmpty writes nothing for a line that was not formatted. (In a browser even an
// empty write leaves the bubble of the simulator.)
type withoutEmpty struct{ io.Writer }

func (w withoutEmpty) Write(line []byte) (int, error) {
	if len(line) == 0 {
		return 0, nil
	}
	return w.Writer.Write(line)
}

// engineInit is held while a server is created, because the engine fills
// package variables of its own without a lock.
var engineInit sync.Mutex

// New loads the file and prepares the server. Clients are served by Run.
func New(cfg Config) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	open := cfg.User == "" && cfg.Password == ""
	cfg = cfg.withDefaults()
	engineInit.Lock()
	defer engineInit.Unlock()
	silenceEngine.Do(func() {
		logrus.SetFormatter(withoutEngine{logrus.StandardLogger().Formatter})
		logrus.SetOutput(withoutEmpty{logrus.StandardLogger().Out})
		vtlog.Error = func(...any) {}
		vtlog.Errorf = func(format string, args ...any) {
			if strings.Contains(format, "panic") { // the engine recovers and closes the connection
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
	s.hurry = sync.OnceFunc(func() { close(s.hasten) })
	tables := cfg.Tables.provider
	s.engine = sqle.NewDefault(&provider{DbProvider: tables, functions: s.functions()})
	refuseFiles(s.engine)
	if !open {
		users := s.engine.Analyzer.Catalog.MySQLDb
		editor := users.Editor()
		users.AddSuperUser(editor, cfg.User, "%", cfg.Password)
		editor.Close()
	}
	var err error
	if s.store, err = openStore(cfg.File, cfg.Database, cfg.User, s.engine, tables); err != nil {
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

// newContext returns an engine context for one statement, with the time of
// Config.Now.
func (s *Server) newContext(ctx context.Context, opts ...sql.ContextOption) *sql.Context {
	c := sql.NewContext(ctx, opts...)
	c.SetQueryTime(s.cfg.Now())
	return c
}

// session returns the engine's session builder, which also stores the session
// in the connection's client.
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

// Run serves until Shutdown, and then returns nil; until ctx is cancelled,
// which is like a crash: every connection is closed, and ctx.Err is returned;
// or until the file cannot be written, and then returns that error. All its
// goroutines have ended when it returns.
func (s *Server) Run(ctx context.Context) error {
	s.mu.Lock()
	was := s.state
	s.state = max(s.state, running)
	s.mu.Unlock()
	switch was {
	case stopped:
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
		err = errors.New("devdb: the listener was closed by another goroutine")
	}
	// 1. Accept no more connections.
	s.wire.Listener.Close()
	serving.Wait()
	// 2. After Shutdown, let the statements in progress finish.
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
	// 3. Close the remaining connections.
	s.sockets.closeAll()
	s.sockets.alive.Wait()
	leaving.Wait()
	return err
}

// Shutdown stops the server gracefully. It accepts no more connections, answers
// the statements in progress, and closes idle connections, which rolls their
// transactions back. Statements that wait for a named lock fail with error 1053.
// Shutdown returns when Run has returned, with ctx.Err() if connections had to
// be closed because ctx ended.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	was := s.state
	s.state = stopped
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
	s.hurry()
	<-s.done
	return ctx.Err()
}

// fail ends Run with err, as in a crash.
func (s *Server) fail(err error) {
	select {
	case s.failed <- err:
		s.log.Error("stopping: the file may lack changes that are in memory", "error", err)
	default:
	}
}

// Addr returns the listener's address.
func (s *Server) Addr() net.Addr { return s.cfg.Listener.Addr() }

// DSN returns the data source name for go-sql-driver/mysql. It selects the text
// protocol, in which a statement is one request and not a PREPARE and an
// EXECUTE, and UTC on both sides. For a listener in memory set
// mysql.Config.DialFunc as well.
func (s *Server) DSN() string {
	c := driver.NewConfig()
	c.User, c.Passwd, c.Net, c.Addr, c.DBName = s.cfg.User, s.cfg.Password, "tcp", s.Addr().String(), s.cfg.Database
	c.InterpolateParams, c.ParseTime, c.Loc = true, true, time.UTC
	c.Params = map[string]string{"time_zone": "'+00:00'"}
	return c.FormatDSN()
}

// Statements returns the number of statements executed since New. Like MySQL's
// status variable Questions it does not count COM_STMT_PREPARE and pings.
func (s *Server) Statements() uint64 { return s.statements.Load() }

// client returns the connection for which the engine evaluates a statement.
func (s *Server) client(ctx *sql.Context) *client {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.clients[ctx.Session.ID()]
}
