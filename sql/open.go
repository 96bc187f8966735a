package sql

import (
	"context"
	stdsql "database/sql"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-sql-driver/mysql"
)

// Options are what Open takes besides the DSN. The zero value is usable.
type Options struct {
	// Dial opens every connection to the server. nil dials the network. A
	// simulated network gives its own.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)

	// Deadline is the longest that a statement outside a pinned connection may
	// take, connecting included. Half a beat of the election is right: then a
	// stalled server costs one beat and no lease. Default 500 ms.
	Deadline time.Duration

	// LockWait is how long the server lets a statement wait for a row lock
	// (innodb_lock_wait_timeout), 1 to 3 whole seconds: its own default of 50 s
	// would let one stopped client stop every election. Default 2 s.
	LockWait time.Duration

	// MaxConns bounds the pool; pinned connections are not counted. Default 4.
	MaxConns int
}

// withDefaults fills the zero fields and refuses what cannot be.
func (o Options) withDefaults() (Options, error) {
	if o.Dial == nil {
		dialer := &net.Dialer{KeepAlive: 5 * time.Second}
		o.Dial = dialer.DialContext
	}
	if o.Deadline == 0 {
		o.Deadline = 500 * time.Millisecond
	}
	if o.LockWait == 0 {
		o.LockWait = 2 * time.Second
	}
	if o.MaxConns == 0 {
		o.MaxConns = 4
	}
	switch {
	case o.Deadline < 0:
		return o, fmt.Errorf("sql options: Deadline %v is negative", o.Deadline)
	case o.LockWait < time.Second || o.LockWait > 3*time.Second || o.LockWait%time.Second != 0:
		return o, fmt.Errorf("sql options: LockWait %v is not 1s, 2s or 3s", o.LockWait)
	case o.MaxConns < 0:
		return o, fmt.Errorf("sql options: MaxConns %d is negative", o.MaxConns)
	}
	return o, nil
}

// DB is one MySQL database: a small pool for short statements under a deadline,
// and pinned connections for what must stay on one connection.
type DB struct {
	opts   Options
	config *mysql.Config // of the pool; Pin clones it
	pool   *stdsql.DB
	sent   atomic.Uint64 // statements, for Statements
}

// Open checks a DSN in the driver's form, user:password@tcp(host:port)/database,
// and prepares the pool. It does not connect: the first statement does, and says
// ErrUnavailable when nobody is there. Errors wrap ErrBadDSN and hide the password.
//
// Whatever the DSN says, every connection interpolates parameters on this side
// (so that a statement is one packet: one that timed out either left or did not),
// is at +00:00 and reads times as UTC, counts changed and not found rows, commits each
// statement by itself, and waits no longer than LockWait for a row.
func Open(dsn string, opts Options) (*DB, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	config, err := parseDSN(dsn)
	if err != nil {
		return nil, err
	}
	config.InterpolateParams = true
	config.ParseTime = true
	config.Loc = time.UTC
	config.ClientFoundRows = false
	config.MultiStatements = false
	config.AllowAllFiles = false
	config.RejectReadOnly = true // a demoted primary: drop the connection, nothing was applied
	config.Timeout = opts.Deadline
	config.ReadTimeout = opts.Deadline
	config.WriteTimeout = opts.Deadline
	config.DialFunc = opts.Dial
	config.Logger = quiet{}
	if config.Params == nil {
		config.Params = map[string]string{}
	}
	config.Params["autocommit"] = "1"
	config.Params["time_zone"] = "'+00:00'"
	inner, err := mysql.NewConnector(config)
	if err != nil {
		return nil, fmt.Errorf("%w: the driver refuses its parameters", ErrBadDSN)
	}
	pool := stdsql.OpenDB(&connector{Connector: inner, settings: []string{lockWait(opts)}})
	pool.SetMaxOpenConns(opts.MaxConns)
	pool.SetMaxIdleConns(opts.MaxConns)
	return &DB{opts: opts, config: config, pool: pool}, nil
}

// parseDSN reads a DSN. The driver's own error is not passed on when it may quote
// a part of the DSN: with a stray character that part is the password.
func parseDSN(dsn string) (*mysql.Config, error) {
	const form = "want user:password@tcp(host:port)/database"
	switch {
	case strings.TrimSpace(dsn) == "":
		return nil, fmt.Errorf("%w: it is empty, %s", ErrBadDSN, form)
	case strings.Contains(dsn, "://"):
		return nil, fmt.Errorf("%w: it looks like a URL, %s", ErrBadDSN, form)
	}
	config, err := mysql.ParseDSN(dsn)
	if err != nil {
		if text, static := strings.CutPrefix(err.Error(), "invalid DSN: "); static {
			return nil, fmt.Errorf("%w: %s; %s", ErrBadDSN, text, form)
		}
		return nil, fmt.Errorf("%w: an address or a parameter cannot be read; %s", ErrBadDSN, form)
	}
	switch config.Net {
	case "tcp", "tcp4", "tcp6", "unix":
	default:
		return nil, fmt.Errorf("%w: its network is none of tcp, unix; %s", ErrBadDSN, form)
	}
	if config.DBName == "" {
		return nil, fmt.Errorf("%w: no database is named after the slash, %s", ErrBadDSN, form)
	}
	return config, nil
}

// lockWait is the setting that bounds the wait for a row lock.
func lockWait(opts Options) string {
	return fmt.Sprintf("SET SESSION innodb_lock_wait_timeout = %d", opts.LockWait/time.Second)
}

// Addr says where the database is, for logs: network, address and database,
// nothing secret.
func (db *DB) Addr() string {
	return fmt.Sprintf("%s(%s)/%s", db.config.Net, db.config.Addr, db.config.DBName)
}

// Statements counts the statements sent so far, pinned ones included. What the
// driver sends to set a connection up is not counted.
func (db *DB) Statements() uint64 { return db.sent.Load() }

// Close closes the pool. Pinned connections are closed by those who pinned them.
// The error is always nil: all that closing can find out is that a connection was
// broken before.
func (db *DB) Close() error {
	_ = db.pool.Close()
	return nil
}

// quiet drops what the driver would print on stderr: each of its lines comes with
// an error that is returned, too.
type quiet struct{}

func (quiet) Print(...any) {}

var _ mysql.Logger = quiet{}
