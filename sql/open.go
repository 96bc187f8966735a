package sql

import (
	"cmp"
	"context"
	stdsql "database/sql"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-sql-driver/mysql"

	"conclave/internal/join"
)

// Options are the parameters of Open besides the DSN. The zero value is usable.
type Options struct {
	// Dial opens every connection to the server; nil dials the network. A
	// simulated network sets its own.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)

	// Password returns the password for a new connection, in place of the DSN's: for
	// passwords that change while the program runs, such as a cloud's tokens. It must
	// return within Deadline, from any goroutine, so a token is renewed beside it. With
	// its error the database is unavailable. nil leaves the DSN's password.
	Password func(ctx context.Context) (string, error)

	// Deadline is the time limit of a statement outside a pinned connection, and
	// of each answer while a connection is established. It should be a sixth of
	// the election's lease (half a beat), so that a stalled server costs one
	// beat and not the lease. Default 500 ms.
	Deadline time.Duration

	// Connect is the time limit for establishing a connection, which takes up
	// to ten round trips. A server that stops answering is given up after
	// Deadline, so that only a slow one can use this time. Default 6*Deadline:
	// a lease.
	Connect time.Duration

	// LockWait is how long the server lets a statement wait for a row lock
	// (innodb_lock_wait_timeout): 1 to 3 whole seconds; the default is 2 s.
	// With the server's own default of 50 s one stopped client could block
	// every election.
	LockWait time.Duration

	// MaxConns bounds the pool. Pinned connections are not counted. Default 4.
	MaxConns int
}

// withDefaults sets the zero fields and returns an error if a field is invalid.
func (o Options) withDefaults() (Options, error) {
	if o.Dial == nil {
		dialer := &net.Dialer{KeepAlive: 5 * time.Second}
		o.Dial = dialer.DialContext
	}
	o.Deadline = cmp.Or(o.Deadline, 500*time.Millisecond)
	o.Connect = cmp.Or(o.Connect, 6*o.Deadline)
	o.LockWait = cmp.Or(o.LockWait, 2*time.Second)
	o.MaxConns = cmp.Or(o.MaxConns, 4)
	switch {
	case o.Deadline < 0:
		return o, fmt.Errorf("sql options: Deadline %v is negative", o.Deadline)
	case o.Connect < o.Deadline:
		return o, fmt.Errorf("sql options: Connect %v is less than Deadline %v", o.Connect, o.Deadline)
	case o.LockWait < time.Second || o.LockWait > 3*time.Second || o.LockWait%time.Second != 0:
		return o, fmt.Errorf("sql options: LockWait is %v, want 1s, 2s or 3s", o.LockWait)
	case o.MaxConns < 0:
		return o, fmt.Errorf("sql options: MaxConns %d is negative", o.MaxConns)
	}
	return o, nil
}

// DB is one MySQL database: a small pool for short statements with a deadline,
// and pinned connections.
type DB struct {
	opts    Options
	configs []*mysql.Config // of the pool, one for each host; Pin clones them
	hosts   *hosts          // which host is the writer; nil if there is one
	pool    *stdsql.DB
	greeter *greeter      // makes the connections
	sent    atomic.Uint64 // statements sent

	known  *accepted  // settings of a session that the server accepts
	trips  *tripTimes // of the latest statements
	blocks atomic.Pointer[Block]

	open context.Context // ends with Close
	end  context.CancelFunc

	connecting atomic.Bool // a connection is made in the background
	running    join.Group  // closed by Close
}

// Open parses a DSN in the driver's form,
// user:password@tcp(host:port)/database, and prepares the pool. It does not
// connect; the first statement does, and returns ErrUnavailable if it cannot.
// Errors of Open about the DSN wrap ErrBadDSN and never contain the password.
//
// The address may be a list, tcp(db1:3306,db2:3306,db3:3306): the members of a
// replication group of MySQL with a single primary, or the nodes of a Galera
// cluster. Each connection is then one to the host that accepts writes: the
// primary that has a quorum, or the first node of the list that takes part. When
// another host becomes the writer, the connections to the former one end. A server
// that is neither is not used (docs/databases.md).
//
// The DSN's parameters tls=true, skip-verify and preferred are the driver's; with
// tlsCA=FILE (and tlsCert and tlsKey) the server's certificate is verified against
// the CAs of a file, with tls=verify-ca whatever host it names.
//
// Open overrides these settings of the DSN: every connection interpolates
// parameters on the client (so that a statement is a single packet, which at a
// timeout was either sent or not), reads times as UTC, counts changed and not
// matched rows, and sets the session variables that the statements rely on
// (connector.go), whatever the DSN and the server say of them.
func Open(dsn string, opts Options) (*DB, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	configs, err := parseDSN(dsn)
	if err != nil {
		return nil, err
	}
	db := &DB{opts: opts, configs: configs, known: &accepted{}, trips: &tripTimes{}}
	db.open, db.end = context.WithCancel(context.Background())
	db.greeter = &greeter{dial: opts.Dial, silent: map[string]*greetedConn{}}
	for _, config := range configs {
		opts.session(config)
		config.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
			return db.greeter.connect(ctx, network, addr, opts.Deadline)
		}
	}
	inner, err := newConnector(configs, 10*opts.Deadline)
	if err != nil {
		return nil, err
	}
	inner.settings, inner.known, inner.limit, db.hosts = opts.settings(), db.known, opts.Connect, inner.hosts
	db.pool = stdsql.OpenDB(inner)
	db.pool.SetMaxOpenConns(opts.MaxConns)
	db.pool.SetMaxIdleConns(opts.MaxConns)
	if db.hosts != nil {
		// Readers would not notice that their host is not the writer any more, or
		// that one before it in the DSN takes part again.
		db.pool.SetConnMaxLifetime(20 * opts.Deadline)
	}
	return db, nil
}

// session sets what every connection has in common.
func (o Options) session(config *mysql.Config) {
	config.InterpolateParams = true
	config.Collation = "" // with it, the driver may refuse to interpolate; settings has another
	config.ParseTime = true
	config.Loc = time.UTC
	config.ClientFoundRows = false
	config.MultiStatements = false
	config.AllowAllFiles = false
	config.RejectReadOnly = false // it discards the server's error; memberConn ends such a connection
	config.Timeout = 0            // the greeter limits the dial
	config.ReadTimeout = o.Deadline
	config.WriteTimeout = o.Deadline
	config.Logger = quiet{}
	if o.Password != nil {
		_ = config.Apply(mysql.BeforeConnect(o.givePassword)) // BeforeConnect never fails
	}
}

// givePassword sets the password of one connection.
func (o Options) givePassword(ctx context.Context, config *mysql.Config) (err error) {
	if config.Passwd, err = o.Password(ctx); err != nil {
		return fmt.Errorf("%w: get the password: %w", ErrUnavailable, err)
	}
	return nil
}

// parseDSN parses a DSN, and returns a configuration for each of its hosts. It hides the driver's error if that may quote a part
// of the DSN, because after a stray character that part may be the password.
func parseDSN(dsn string) ([]*mysql.Config, error) {
	const form = "want user:password@tcp(host:port)/database"
	switch {
	case strings.TrimSpace(dsn) == "":
		return nil, fmt.Errorf("%w: it is empty, %s", ErrBadDSN, form)
	case strings.Contains(dsn, "://"):
		return nil, fmt.Errorf("%w: it looks like a URL, %s", ErrBadDSN, form)
	}
	dsn, secured, err := takeSecurity(dsn)
	if err != nil {
		return nil, err
	}
	dsns, err := perHost(dsn)
	if err != nil {
		return nil, err
	}
	configs := make([]*mysql.Config, len(dsns))
	for i, dsn := range dsns { // each, because each host has its own name in its certificate
		if configs[i], err = parseOne(dsn, form); err != nil {
			return nil, err
		}
		if secured == nil {
			continue
		}
		if err := secured.secure(configs[i]); err != nil {
			return nil, err
		}
	}
	return configs, nil
}

// unknownTLS begins the driver's error for another value of tls.
const unknownTLS = "invalid value / unknown config name"

// parseOne parses a DSN with one host.
func parseOne(dsn, form string) (*mysql.Config, error) {
	config, err := mysql.ParseDSN(dsn)
	if err != nil {
		if text, static := strings.CutPrefix(err.Error(), "invalid DSN: "); static {
			return nil, fmt.Errorf("%w: %s; %s", ErrBadDSN, text, form)
		}
		if strings.HasPrefix(err.Error(), unknownTLS) {
			return nil, fmt.Errorf("%w: parameter tls: want true, false, preferred, skip-verify or, with %s, %s; %s", ErrBadDSN, paramCA, verifyCA, form)
		}
		return nil, fmt.Errorf("%w: the address or a parameter cannot be parsed; %s", ErrBadDSN, form)
	}
	switch config.Net {
	case "tcp", "tcp4", "tcp6", "unix":
	default:
		return nil, fmt.Errorf("%w: the network must be tcp or unix; %s", ErrBadDSN, form)
	}
	if config.DBName == "" {
		return nil, fmt.Errorf("%w: there is no database after the slash, %s", ErrBadDSN, form)
	}
	return config, nil
}

// Addr returns network, addresses and database, for logs. It contains no secrets.
func (db *DB) Addr() string {
	addrs := make([]string, len(db.configs))
	for i, config := range db.configs {
		addrs[i] = config.Addr
	}
	return fmt.Sprintf("%s(%s)/%s", db.configs[0].Net, strings.Join(addrs, ","), db.configs[0].DBName)
}

// Statements returns the number of statements sent so far, pinned connections
// included. What the driver sends when it connects is not counted.
func (db *DB) Statements() uint64 { return db.sent.Load() }

// Close closes the pool, but not the pinned connections. It always returns nil:
// closing can only fail for a connection that was already broken.
func (db *DB) Close() error {
	db.end()
	_ = db.pool.Close()
	db.greeter.close()
	db.running.Close()
	return nil
}

// quiet discards the driver's log lines, because each comes with an error that
// the driver also returns.
type quiet struct{}

func (quiet) Print(...any) {}

var _ mysql.Logger = quiet{}

// What a pool of OpenPool allows each host for a connection, how long it tries a
// host last that could not be reached, and after how long it asks again which is
// the writer.
const (
	poolConnect  = 10 * time.Second
	poolRest     = 10 * time.Second
	poolLifetime = 10 * time.Second
)

// OpenPool returns a pool for a program's own statements. It reads the DSN as
// Open does: of several hosts, each connection is to the one that accepts writes.
// Otherwise the sessions are as the DSN and the server set them, and only the
// contexts of the statements limit them; where the driver interpolates
// parameters, texts are UTF-8. set, if it is not nil, changes the configuration
// of each host.
func OpenPool(dsn string, set func(*mysql.Config)) (*stdsql.DB, error) {
	configs, err := parseDSN(dsn)
	if err != nil {
		return nil, err
	}
	var texts []setting
	for _, config := range configs {
		config.Logger = quiet{}
		if set != nil {
			set(config)
		}
		if config.InterpolateParams {
			config.Collation, texts = "", utf8Texts
		}
	}
	c, err := newConnector(configs, poolRest)
	if err != nil {
		return nil, err
	}
	c.settings, c.known, c.limit = texts, &accepted{}, poolConnect
	pool := stdsql.OpenDB(c)
	if c.hosts != nil {
		pool.SetConnMaxLifetime(poolLifetime)
	}
	return pool, nil
}

// Hosts returns the network of a DSN, and its hosts as a Dial function gets them.
func Hosts(dsn string) (network string, hosts []string, err error) {
	configs, err := parseDSN(dsn)
	if err != nil {
		return "", nil, err
	}
	for _, config := range configs {
		hosts = append(hosts, config.Addr)
	}
	return configs[0].Net, hosts, nil
}
