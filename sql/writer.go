package sql

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"time"
)

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
	if db.hosts == nil {
		return Single
	}
	db.hosts.mu.Lock()
	defer db.hosts.mu.Unlock()
	return db.hosts.kind
}

// Writer returns the host of a DSN with several that accepts writes, as the last
// new connection has found; empty if there is none, or if the DSN has one host.
func (db *DB) Writer() string {
	if db.hosts == nil {
		return ""
	}
	db.hosts.mu.Lock()
	defer db.hosts.mu.Unlock()
	if db.hosts.writer < 0 {
		return ""
	}
	return db.hosts.names[db.hosts.writer]
}

// Advice returns what an operator should change in the settings of the writer, one
// sentence each; nil for a DSN with one host, which is not asked.
func (db *DB) Advice() []string {
	if db.hosts == nil {
		return nil
	}
	db.hosts.mu.Lock()
	defer db.hosts.mu.Unlock()
	return db.hosts.advice
}
