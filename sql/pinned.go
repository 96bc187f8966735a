package sql

import (
	"context"
	stdsql "database/sql"
	"database/sql/driver"
	"fmt"
	"math"
	"net"
	"sync"
	"time"

	"github.com/go-sql-driver/mysql"
)

// Pinned is a single connection, for named locks, which the server frees when
// the connection ends. It has no read or write timeout: the driver would close
// the connection in the middle of a wait, and free the locks. The context of
// each statement is its only limit, and if it ends, the connection is closed. A
// Pinned is never returned to a pool.
type Pinned struct {
	db   *DB
	one  *stdsql.DB   // a pool of exactly this connection
	conn *stdsql.Conn // the connection

	lost func(error) // called when the connection is lost; may be nil

	mu      sync.Mutex     // guards the fields below
	socket  *watchedConn   // set by the dial
	ready   bool           // the connection is established; from now on its loss is reported
	early   error          // the error of a socket that ended before that
	closed  bool           // no statement may start
	running sync.WaitGroup // statements in progress; Close waits for them
	closing sync.Once
}

// Pin opens a connection, within Options.Connect, and with Options.Deadline for each
// answer of the server until it is established. lost, which may be nil, is called at most once, when
// the server closes the connection or the network breaks it, even if no
// statement is in progress. It is called from the connection's reader and must
// not block. It is not called for Close, for a context that ended, or if Pin
// fails. (Behind a proxy a dial may be accepted and broken a moment later, as
// long as the server is down.)
func (db *DB) Pin(ctx context.Context, lost func(error)) (*Pinned, error) {
	return db.pin(ctx, lost, db.opts.Connect, db.opts.Deadline)
}

// pinPatiently opens a connection whose only limit is ctx, and the usual limits for
// each host of a DSN with several.
func (db *DB) pinPatiently(ctx context.Context) (*Pinned, error) {
	if db.hosts != nil { // a host that does not answer must not end the search
		return db.pin(ctx, nil, db.opts.Connect, db.opts.Deadline)
	}
	return db.pin(ctx, nil, 0, 0)
}

// pin opens a connection within a limit, and with a limit for each answer of the
// server; 0 is none.
func (db *DB) pin(ctx context.Context, lost func(error), limit, step time.Duration) (*Pinned, error) {
	p := &Pinned{db: db, lost: lost}
	dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := db.greeter.connect(ctx, network, addr, step)
		if err != nil {
			return nil, err
		}
		t := newWatchedConn(conn, p.ended, limitOf(ctx).answered)
		p.mu.Lock()
		p.socket, p.early = t, nil // an earlier one was to a host that cannot be used
		p.mu.Unlock()
		return t, nil
	}
	servers := make([]driver.Connector, len(db.configs))
	for i, config := range db.configs {
		config = config.Clone()
		config.ReadTimeout, config.WriteTimeout = 0, 0
		config.CheckConnLiveness = false // watchedConn does that, without a delay
		config.DialFunc = dial
		var err error
		if servers[i], err = mysql.NewConnector(config); err != nil {
			return nil, fmt.Errorf("pin a connection: %w", err)
		}
	}
	if limit == 0 {
		limit = math.MaxInt64 // ctx is the only limit
	}
	p.one = stdsql.OpenDB(&connector{servers: servers, hosts: db.hosts, settings: db.opts.settings(), known: db.known, limit: limit, step: step})
	p.one.SetMaxOpenConns(1)
	var err error
	if p.conn, err = p.one.Conn(ctx); err != nil {
		p.Close()
		return nil, fmt.Errorf("pin a connection: %w", classify(err))
	}
	p.mu.Lock()
	p.ready = true
	early := p.early
	p.mu.Unlock()
	if early != nil {
		p.Close()
		return nil, fmt.Errorf("pin a connection: %w: %w", ErrUnavailable, early)
	}
	if db.hosts != nil {
		if err := p.follow(); err != nil {
			p.Close()
			return nil, fmt.Errorf("pin a connection: %w", classify(err))
		}
	}
	return p, nil
}

// follow makes the connection end when another host of the DSN becomes the writer.
func (p *Pinned) follow() error {
	return p.conn.Raw(func(conn any) error {
		if m, ok := conn.(*memberConn); !ok || !p.db.hosts.watch(p, m.host) {
			return driver.ErrBadConn
		}
		return nil
	})
}

// move ends the connection as the network would, because another host of the DSN
// accepts writes now. A statement that waits on it returns at once, and lost is
// called.
func (p *Pinned) move() {
	p.mu.Lock()
	t := p.socket
	p.mu.Unlock()
	if t != nil {
		t.Conn.Close()
	}
}

// ended is called when the socket has ended without Close.
func (p *Pinned) ended(err error) {
	p.mu.Lock()
	ready := p.ready
	if !ready {
		p.early = err
	}
	p.mu.Unlock()
	if ready && p.lost != nil {
		p.lost(err)
	}
}

// Exec runs one statement on the connection and returns how many rows it
// changed. ctx is its only deadline. After an error that is not NotExecuted the caller
// must close the connection.
func (p *Pinned) Exec(ctx context.Context, statement string, args ...any) (int64, error) {
	if err := p.begin(); err != nil {
		return 0, err
	}
	defer p.running.Done()
	n, err := changed(p.conn.ExecContext(ctx, statement, args...))
	return n, classify(err)
}

// QueryRow reads one row on the connection. ctx is its only deadline.
func (p *Pinned) QueryRow(ctx context.Context, statement string, args []any, dest ...any) error {
	if err := p.begin(); err != nil {
		return err
	}
	defer p.running.Done()
	return classify(p.conn.QueryRowContext(ctx, statement, args...).Scan(dest...))
}

// Query calls each for every row that a query on the connection finds. ctx is its only
// deadline. It stops at the first error of each and returns it.
func (p *Pinned) Query(ctx context.Context, statement string, args []any, each func(scan func(dest ...any) error) error) error {
	if err := p.begin(); err != nil {
		return err
	}
	defer p.running.Done()
	rows, err := p.conn.QueryContext(ctx, statement, args...)
	return classify(scanned(rows, err, each))
}

// Recheck asks the server again whether it accepts writes that the others of the DSN
// will have, as each new connection does: a connection that lasts does not notice
// that a part of the group or cluster has left it. With one host it does nothing. ctx
// is its only deadline. After an error the caller must close the connection.
func (p *Pinned) Recheck(ctx context.Context) error {
	if p.db.hosts == nil {
		return nil
	}
	if err := p.begin(); err != nil {
		return err
	}
	defer p.running.Done()
	return classify(p.conn.Raw(func(conn any) error {
		m, err := askMember(ctx, conn.(*memberConn))
		if err != nil {
			return err
		}
		if m.status["wsrep_local_state"] == "2" { // a donor: it is not chosen, but the others have what it accepts
			m.status["wsrep_local_state"] = "4"
		}
		return m.writable(len(p.db.hosts.names))
	}))
}

// begin counts a statement in, and fails if the connection is closed. (A
// statement that starts while database/sql closes its connection can
// dereference a nil pointer there.)
func (p *Pinned) begin() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return fmt.Errorf("%w: %w", ErrUnavailable, net.ErrClosed)
	}
	p.running.Add(1)
	p.db.sent.Add(1)
	return nil
}

// Close closes the connection, even if a statement is in progress; the server
// then frees its locks. It may be called more than once and from any goroutine.
// It always returns nil, because the connection is discarded in any case.
func (p *Pinned) Close() error {
	p.closing.Do(func() {
		p.mu.Lock()
		p.closed = true
		t := p.socket
		p.mu.Unlock()
		if p.db.hosts != nil {
			p.db.hosts.unwatch(p)
		}
		if t != nil {
			t.Close() // ends a statement in progress
		}
		p.running.Wait()
		if p.conn != nil {
			// ErrBadConn makes the pool discard the connection instead of
			// keeping it.
			_ = p.conn.Raw(func(any) error { return driver.ErrBadConn })
			p.conn.Close()
		}
		p.one.Close()
	})
	return nil
}
