package sql

import (
	"context"
	stdsql "database/sql"
	"database/sql/driver"
	"fmt"
	"net"
	"sync"

	"github.com/go-sql-driver/mysql"
)

// Pinned is one connection of its own: for named locks, which live and die with
// the connection that holds them. It has no read or write time-out (the driver
// would close it in the middle of a wait, and free the locks); the context of each
// statement is its only limit, and a context that ends closes the connection. It
// is never returned to a pool: it is closed.
type Pinned struct {
	db   *DB
	one  *stdsql.DB   // a pool of exactly this connection
	conn *stdsql.Conn // the connection

	lost func(error) // told of the end; may be nil

	mu      sync.Mutex     // guards what follows
	tether  *tether        // the connection's socket, set by the dial
	ready   bool           // Pin has returned, or is about to: an end is news
	early   error          // why the socket ended before that
	closed  bool           // no statement may begin
	running sync.WaitGroup // statements under way; Close joins them
	closing sync.Once
}

// Pin opens a connection. lost, which may be nil, is called at most once, from the
// connection's reader, when the other side closes it or the network breaks it,
// also while no statement is under way; it must not block. It is not called for
// Close or for a context that ended, nor when Pin fails: behind a proxy a dial is
// accepted, and broken a moment later, for as long as the server is away.
func (db *DB) Pin(ctx context.Context, lost func(error)) (*Pinned, error) {
	p := &Pinned{db: db, lost: lost}
	config := db.config.Clone()
	config.ReadTimeout, config.WriteTimeout = 0, 0
	config.CheckConnLiveness = false // the tether does that, and at once
	config.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := db.opts.Dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		t := newTether(conn, p.ended)
		p.mu.Lock()
		p.tether = t
		p.mu.Unlock()
		return t, nil
	}
	inner, err := mysql.NewConnector(config)
	if err != nil {
		return nil, fmt.Errorf("pin a connection: %w", err)
	}
	p.one = stdsql.OpenDB(&connector{Connector: inner, settings: []string{
		lockWait(db.opts),
		// A server-wide limit on the time of a query would end the waits. MySQL and
		// MariaDB call it differently, and each refuses the other's name.
		"SET SESSION max_execution_time = 0",
		"SET SESSION max_statement_time = 0",
	}})
	p.one.SetMaxOpenConns(1)
	p.conn, err = p.one.Conn(ctx)
	if err != nil {
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
	return p, nil
}

// ended is told by the tether that the socket has ended by itself.
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

// Exec runs one statement on the connection; ctx is its only deadline. After an
// error the connection is to be closed.
func (p *Pinned) Exec(ctx context.Context, statement string, args ...any) (int64, error) {
	if err := p.begin(); err != nil {
		return 0, err
	}
	defer p.running.Done()
	return changed(p.conn.ExecContext(ctx, statement, args...))
}

// QueryRow reads one row on the connection; ctx is its only deadline.
func (p *Pinned) QueryRow(ctx context.Context, statement string, args []any, dest ...any) error {
	if err := p.begin(); err != nil {
		return err
	}
	defer p.running.Done()
	return classify(p.conn.QueryRowContext(ctx, statement, args...).Scan(dest...))
}

// begin lets a statement begin, unless the connection is closed. (A statement that
// begins while database/sql closes its connection can meet a nil pointer there.)
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

// Close closes the connection, under a statement if there is one: the server
// then frees its locks. It may be called more than once and from any goroutine.
// The error is always nil: a connection that is closed was good for nothing else.
func (p *Pinned) Close() error {
	p.closing.Do(func() {
		p.mu.Lock()
		p.closed = true
		t := p.tether
		p.mu.Unlock()
		if t != nil {
			t.Close() // ends a statement that waits
		}
		p.running.Wait()
		if p.conn != nil {
			// A connection given back to its pool of one would live on.
			_ = p.conn.Raw(func(any) error { return driver.ErrBadConn })
			p.conn.Close()
		}
		p.one.Close()
	})
	return nil
}
