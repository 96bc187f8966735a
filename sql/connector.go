package sql

import (
	"context"
	"database/sql/driver"
	"fmt"
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

// accepted holds the settings that the server has accepted, as one statement for
// each list of settings, so that later connections need one round trip for all.
type accepted struct{ statements sync.Map }

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
