package sql

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-sql-driver/mysql"
)

// connector opens connections and applies the settings. The refusal of an optional
// one is ignored. (In the DSN, a refused setting would make the connection fail.)
type connector struct {
	servers  []driver.Connector // one for each host of the DSN
	hosts    *hosts             // which of them is the writer; nil if there is one
	settings []setting
	known    *accepted
	limit    time.Duration // of Connect, for each host
	step     time.Duration // of each answer; 0 if the driver has a time limit for it
}

// newConnector returns a connector to the hosts of a DSN. rest is for how long a host
// that could not be reached is tried last.
func newConnector(configs []*mysql.Config, rest time.Duration) (*connector, error) {
	c := &connector{}
	names := make([]string, len(configs))
	for i, config := range configs {
		server, err := mysql.NewConnector(config)
		if err != nil {
			return nil, fmt.Errorf("%w: the driver refuses the parameters", ErrBadDSN)
		}
		c.servers = append(c.servers, server)
		names[i] = config.Addr
	}
	if len(configs) > 1 {
		c.hosts = newHosts(names, rest)
	}
	return c, nil
}

// accepted holds the settings that the server has accepted, as one statement for
// each list of settings, so that later connections need one round trip for all.
type accepted struct{ statements sync.Map }

var _ driver.Connector = (*connector)(nil)

// Connect opens one connection. ctx also bounds the settings. The time that it
// takes does not count for the statement that needs the connection (see limit).
func (c *connector) Connect(ctx context.Context) (conn driver.Conn, err error) {
	if l := limitOf(ctx); l.suspend() {
		defer func() {
			l.unconnected = err != nil
			l.begin()
		}()
	}
	if c.hosts == nil {
		return c.attempt(ctx, 0)
	}
	return c.connectToWriter(ctx)
}

// Driver returns the driver of the connections.
func (c *connector) Driver() driver.Driver { return c.servers[0].Driver() }

// attempt connects to one host.
func (c *connector) attempt(ctx context.Context, i int) (conn driver.Conn, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.limit)
	defer cancel()
	if c.step > 0 {
		l, watched := limited(ctx, c.step)
		ctx = watched
		defer func() { err = l.end(err) }()
	}
	conn, err = c.servers[i].Connect(ctx)
	if err != nil {
		return nil, err
	}
	settings := c.settings
	if c.hosts != nil {
		m, more, err := c.asMember(ctx, conn, i)
		if err != nil {
			conn.Close()
			return nil, err
		}
		conn, settings = m, slices.Concat(settings, more)
	} else if full, ok := conn.(fullConn); ok {
		conn = &memberConn{fullConn: full, made: time.Now(), young: c.limit / 3}
	}
	if err := c.apply(ctx, conn.(driver.ExecerContext), settings); err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// apply sends the settings: all that are known to be accepted in one statement,
// or, if they are not known or the statement is refused, the optional ones one after
// the other.
func (c *connector) apply(ctx context.Context, conn driver.ExecerContext, settings []setting) error {
	key := fmt.Sprint(settings)
	if statement, ok := c.known.statements.Load(key); ok {
		took, err := set(ctx, conn, statement.(string))
		if err != nil || took {
			return err
		}
	}
	var taken []string
	for _, s := range settings {
		if !s.optional {
			taken = append(taken, "SESSION "+s.text)
		}
	}
	if len(taken) > 0 {
		if _, err := conn.ExecContext(ctx, "SET "+strings.Join(taken, ", "), nil); err != nil {
			return fmt.Errorf("set the session's variables: %w", err)
		}
	}
	for _, s := range settings {
		if !s.optional {
			continue
		}
		took, err := set(ctx, conn, "SET SESSION "+s.text)
		if err != nil {
			return err
		}
		if took {
			taken = append(taken, "SESSION "+s.text)
		}
	}
	if len(taken) > 0 {
		c.known.statements.Store(key, "SET "+strings.Join(taken, ", "))
	}
	return nil
}

// set reports whether the server accepts a setting. The error is one of the
// connection, or of a server that is not available now: what it refuses then, it may
// accept later.
func set(ctx context.Context, conn driver.ExecerContext, statement string) (bool, error) {
	_, err := conn.ExecContext(ctx, statement, nil)
	if err != nil && (!Answered(err) || meaningOf(err)&passing != 0) {
		return false, fmt.Errorf("%s: %w", statement, err)
	}
	return err == nil, nil
}

// fullConn is a connection of the driver with all that database/sql uses.
type fullConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.QueryerContext
	driver.Pinger
	driver.NamedValueChecker
	driver.SessionResetter
	driver.Validator
}

// memberConn is a connection of the pool, or a pinned one. It is valid while its host
// is the writer, and until the server answers that the group did not take a statement,
// or that it is read-only, as a former primary is.
type memberConn struct {
	fullConn
	hosts  *hosts // nil if there is one
	host   int
	made   time.Time
	young  time.Duration // for which a new connection would meet the same server
	failed bool          // by the goroutine that uses the connection
}

var _ fullConn = (*memberConn)(nil)

// IsValid reports whether the connection may be used again.
func (c *memberConn) IsValid() bool {
	return !c.failed && (c.hosts == nil || c.hosts.isWriter(c.host)) && c.fullConn.IsValid()
}

// leave makes the connection invalid if its server refuses what another one may take.
func (c *memberConn) leave(err error) {
	refused := meaningOf(err)
	obsolete := refused&readOnly != 0 && (c.hosts != nil || time.Since(c.made) >= c.young)
	c.failed = c.failed || obsolete || refused&outOfGroup != 0
}

// ResetSession refuses a connection that waited in the pool while another host
// became the writer.
func (c *memberConn) ResetSession(ctx context.Context) error {
	if !c.IsValid() {
		return driver.ErrBadConn
	}
	return c.fullConn.ResetSession(ctx)
}

// ExecContext runs a statement. After a refusal by the group the connection is not
// used again: its server is leaving, or has lost the others.
func (c *memberConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	result, err := c.fullConn.ExecContext(ctx, query, args)
	c.leave(err)
	return result, err
}

// QueryContext runs a query, as ExecContext does.
func (c *memberConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	rows, err := c.fullConn.QueryContext(ctx, query, args)
	c.leave(err)
	return rows, err
}

// connectToWriter tries the hosts until one accepts writes.
func (c *connector) connectToWriter(ctx context.Context) (driver.Conn, error) {
	reasons := make([]error, 0, len(c.servers))
	for _, i := range c.hosts.order(time.Now()) {
		conn, err := c.attempt(ctx, i)
		if err == nil {
			return conn, nil
		}
		if ctx.Err() != nil {
			return nil, err
		}
		if errors.Is(classify(err), ErrUnavailable) {
			c.hosts.unreachable(i, time.Now())
		}
		reasons = append(reasons, fmt.Errorf("%s: %w", c.hosts.names[i], err))
	}
	return nil, c.hosts.none(reasons)
}

// asMember asks a new connection whether its server accepts writes, and returns the
// settings for it.
func (c *connector) asMember(ctx context.Context, conn driver.Conn, i int) (*memberConn, []setting, error) {
	full, ok := conn.(fullConn)
	if !ok {
		return nil, nil, fmt.Errorf("the driver's connection is a %T", conn)
	}
	m, err := askMember(ctx, full)
	if err == nil {
		err = m.writable(len(c.hosts.names))
	}
	if err != nil {
		return nil, nil, err
	}
	for _, p := range c.hosts.found(i, m) {
		p.move()
	}
	return &memberConn{fullConn: full, hosts: c.hosts, host: i, made: time.Now()}, m.settings(), nil
}

// Replication returns how the servers of a DSN with several hosts are replicated,
// as the last new connection has found.
func (db *DB) Replication() Replication {
	_, kind, _ := db.hosts.look()
	return kind
}

// Writer returns the host of a DSN with several that accepts writes, as the last
// new connection has found; empty if there is none, or if the DSN has one host.
func (db *DB) Writer() string {
	writer, _, _ := db.hosts.look()
	return writer
}

// Advice returns what an operator should change in the settings of the writer, one
// sentence each; nil for a DSN with one host, which is not asked.
func (db *DB) Advice() []string {
	_, _, advice := db.hosts.look()
	return advice
}

// setting is a session variable that a connection sets.
type setting struct {
	text     string // name = value
	optional bool   // a server may refuse it: it lacks the variable, or has it for all sessions only
}

// utf8Texts are the settings for texts. The driver quotes a parameter as UTF-8 and writes
// it into the statement. In gbk, sjis and others a backslash may be the second byte
// of a character, so that a server that reads the statement in one of them would not
// see that the quote after it is quoted.
var utf8Texts = []setting{
	{"character_set_client = utf8mb4", false},
	{"character_set_results = utf8mb4", false},
	{"collation_connection = utf8mb4_general_ci", false}, // columns have their own
}

// settings returns the session variables that the statements rely on. They are sent in
// one statement after those of the DSN, so that neither a DSN nor the settings of the
// server can change what a statement means or how long a session lasts.
func (o Options) settings() []setting {
	wait := o.LockWait / time.Second
	return append([]setting{
		// Every statement is a transaction of its own, because no decision takes two.
		{"autocommit = 1", false},
		// Migrations convert times in the zone of their session.
		{"time_zone = '+00:00'", false},
		// A value that does not fit is refused and not cut, and a table without InnoDB is
		// not created. Nothing else: ANSI_QUOTES, NO_BACKSLASH_ESCAPES, and ORACLE and
		// EMPTY_STRING_IS_NULL of MariaDB change what texts mean; with the last two the
		// empty owner of a new lock would be NULL.
		{"sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION'", false},
		// The server ends sessions that are idle for longer, and with them a witness. A
		// beat may last longer than an operator's limit for idle clients.
		{"wait_timeout = 28800", false},
		// A read of the cluster's state returns all rows, or decisions would be missing.
		{"sql_select_limit = 9223372036854775807", false},
		// An INSERT IGNORE of a row that exists changes nothing.
		{"unique_checks = 1", false},
		// The servers refuse joins and updates that they take for large ones.
		{"sql_big_selects = 1", false},
		{"sql_safe_updates = 0", false},
		// What is not committed is not read. The first is MySQL's name, the second MariaDB's.
		{"transaction_isolation = 'REPEATABLE-READ'", true},
		{"tx_isolation = 'REPEATABLE-READ'", true},
		// The waits for a lock of a row, and of a table or the whole server. Without the
		// second, whose default is a year, each statement that is given up during a backup's
		// FLUSH TABLES WITH READ LOCK would leave a waiting connection in the server.
		{fmt.Sprintf("innodb_lock_wait_timeout = %d", wait), true},
		{fmt.Sprintf("lock_wait_timeout = %d", wait), true},
		// A limit of the execution time would end the waits for a witness. The names are
		// those of MySQL and of MariaDB.
		{"max_execution_time = 0", true},
		{"max_statement_time = 0", true},
	}, utf8Texts...)
}

// watchedConn is a socket that notices when it ends. The driver reads a
// connection only while a statement is in progress, so that an idle connection
// that the server has closed looks alive until the next beat, and a leader
// would believe for that long that it still holds its witness. watchedConn
// always has a read outstanding: it reads one chunk ahead of the driver.
type watchedConn struct {
	net.Conn
	lost func(error) // called once when the socket ends without Close
	read func()      // called with each read that has returned bytes

	chunks chan []byte   // read ahead; closed by pump when the socket has ended
	taken  chan struct{} // the driver has consumed the chunk; never closed
	closed chan struct{} // closed by Close: there are no more reads
	done   chan struct{} // closed by pump at its end

	rest []byte // of the last chunk; used only by Read
	err  error  // why the socket ended; set before chunks is closed

	closing sync.Once
}

var _ net.Conn = (*watchedConn)(nil)

// newWatchedConn takes over the socket and starts the goroutine that reads it.
// Close waits for that goroutine.
func newWatchedConn(conn net.Conn, lost func(error), read func()) *watchedConn {
	t := &watchedConn{
		Conn:   conn,
		lost:   lost,
		read:   read,
		chunks: make(chan []byte),
		taken:  make(chan struct{}),
		closed: make(chan struct{}),
		done:   make(chan struct{}),
	}
	go t.pump()
	return t
}

// pump reads ahead, one chunk at a time.
func (t *watchedConn) pump() {
	defer close(t.done)
	buf := make([]byte, 16<<10)
	for {
		n, err := t.Conn.Read(buf)
		if n > 0 {
			t.read()
			select {
			case t.chunks <- buf[:n]:
			case <-t.closed:
				return
			}
			select {
			case <-t.taken:
			case <-t.closed:
				return
			}
		}
		if err != nil {
			t.end(err)
			return
		}
	}
}

// end reports that the socket has ended, unless Close ended it. It calls lost
// before Read returns the error, because the driver then closes the socket
// itself.
func (t *watchedConn) end(err error) {
	select {
	case <-t.closed:
	default:
		t.lost(err)
	}
	t.err = err
	close(t.chunks)
}

// Read returns what was read ahead. It must not be called from two goroutines
// at once.
func (t *watchedConn) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if len(t.rest) == 0 {
		select {
		case chunk, ok := <-t.chunks:
			if !ok {
				return 0, t.err
			}
			t.rest = chunk
		case <-t.closed:
			return 0, net.ErrClosed
		}
	}
	n := copy(p, t.rest)
	t.rest = t.rest[n:]
	if len(t.rest) == 0 {
		select {
		case t.taken <- struct{}{}:
		case <-t.closed:
		}
	}
	return n, nil
}

// Close closes the socket and waits for the pump.
func (t *watchedConn) Close() error {
	var err error
	t.closing.Do(func() {
		close(t.closed)
		err = t.Conn.Close()
	})
	<-t.done
	return err
}
