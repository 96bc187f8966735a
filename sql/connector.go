package sql

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-sql-driver/mysql"
)

// connector opens connections and applies settings that some servers do not
// know or do not allow a session to change; their refusal is ignored. (In the
// DSN, a refused setting would make the connection fail.)
type connector struct {
	servers  []driver.Connector // one for each host of the DSN
	hosts    *hosts             // which of them is the writer; nil if there is one
	settings []string           // "name = value"
	known    *accepted
	limit    time.Duration // of Connect, for each host
	stall    *stall        // of each answer; nil if the driver has a time limit for it
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

// accepted holds the settings that the server has accepted, as one statement, so
// that later connections need one round trip for all of them.
type accepted struct {
	statements atomic.Pointer[map[string]string]
}

// get returns the statement for these settings; false if it is not known yet.
func (a *accepted) get(settings []string) (string, bool) {
	m := a.statements.Load()
	if m == nil {
		return "", false
	}
	statement, ok := (*m)[strings.Join(settings, ", ")]
	return statement, ok
}

// put records the statement for these settings. Of two calls at the same time
// one may be lost: it is made again with the next connection.
func (a *accepted) put(settings []string, statement string) {
	next := map[string]string{}
	if m := a.statements.Load(); m != nil {
		for k, v := range *m {
			next[k] = v
		}
	}
	next[strings.Join(settings, ", ")] = statement
	a.statements.Store(&next)
}

var _ driver.Connector = (*connector)(nil)

// Connect opens one connection. ctx also bounds the settings. The time that it
// takes does not count for the statement that needs the connection (see limit).
func (c *connector) Connect(ctx context.Context) (driver.Conn, error) {
	resume := suspendLimit(ctx)
	var conn driver.Conn
	var err error
	if c.hosts == nil {
		conn, err = c.attempt(ctx, 0)
	} else {
		conn, err = c.connectToWriter(ctx)
	}
	resume(err == nil)
	return conn, err
}

// Driver returns the driver of the connections.
func (c *connector) Driver() driver.Driver { return c.servers[0].Driver() }

// attempt connects to one host.
func (c *connector) attempt(ctx context.Context, i int) (conn driver.Conn, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.limit)
	defer cancel()
	ctx, end := c.stall.watch(ctx)
	defer func() { err = end(err) }()
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
	}
	if err := c.apply(ctx, conn.(driver.ExecerContext), settings); err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// apply sends the settings: all that are known to be accepted in one statement,
// or, if they are not known or the statement is refused, one after the other.
func (c *connector) apply(ctx context.Context, conn driver.ExecerContext, settings []string) error {
	if statement, ok := c.known.get(settings); ok {
		if statement == "" {
			return nil
		}
		took, err := set(ctx, conn, statement)
		if err != nil || took {
			return err
		}
	}
	var taken []string
	for _, setting := range settings {
		took, err := set(ctx, conn, "SET SESSION "+setting)
		if err != nil {
			return err
		}
		if took {
			taken = append(taken, "SESSION "+setting)
		}
	}
	statement := ""
	if len(taken) > 0 {
		statement = "SET " + strings.Join(taken, ", ")
	}
	c.known.put(settings, statement)
	return nil
}

// set reports whether the server accepts a setting. The error is one of the
// connection, or of a server that is not available now: what it refuses then, it may
// accept later.
func set(ctx context.Context, conn driver.ExecerContext, statement string) (bool, error) {
	_, err := conn.ExecContext(ctx, statement, nil)
	var refused *mysql.MySQLError
	if err != nil && (!errors.As(err, &refused) || errors.Is(classify(err), ErrUnavailable)) {
		return false, fmt.Errorf("%s: %w", statement, err)
	}
	return err == nil, nil
}
