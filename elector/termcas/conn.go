package termcas

import (
	"context"
	stdsql "database/sql"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"conclave/elector"
	conclavesql "conclave/sql"
)

// witnessConn is a pinned connection, on which a node waits for a witness, wins and
// renews. The named locks taken on it are held until it is closed.
type witnessConn struct {
	pinned *conclavesql.Pinned
	made   time.Time
	lost   atomic.Bool // broken, or its lock was given to a peer; never false again

	// Of the connection of a Shared.
	lock string           // the witness of all terms; only its name if id is not valid
	id   stdsql.NullInt64 // the connection that holds it
}

// witness returns the lock of a Shared's connection; empty if there is none.
func (c *witnessConn) witness() string {
	if !c.id.Valid {
		return ""
	}
	return c.lock
}

// open returns the spare connection, or opens one within the limit of the database
// handle. An election of a Shared gets the shared one.
func (s *Strategy) open(ctx context.Context, me elector.Candidate) (*witnessConn, error) {
	if s.shared != nil {
		return s.shared.connection(ctx, me)
	}
	if c := s.spare; c != nil {
		s.spare = nil
		if !c.lost.Load() {
			return c, nil
		}
		c.close()
	}
	c := &witnessConn{made: time.Now()}
	pinned, err := s.cfg.DB.Pin(ctx, func(error) {
		c.lost.Store(true)
		s.wake.Set()
	})
	if err != nil {
		return nil, err
	}
	c.pinned = pinned
	if !s.noWitness && s.cfg.DB.Replication() == conclavesql.Galera {
		// Each node has named locks of its own: a lock that is free on one may be
		// held by the leader on another.
		s.health.withoutWitness(errors.New("the database is a Galera cluster, whose named locks are known on one node only"))
	}
	if err := s.checkBinlog(ctx, me, c); err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

// checkBinlog checks once whether this server replicates statements as text. If it
// does, a predicate about a witness would match nothing on a replica, and a
// fail-over would set the term back: such a server gets no witness. A Shared cannot use
// it at all, because a replica leaves out other rows (SKIP LOCKED), and checks each
// server that it connects to. A server that does not know these variables has no such
// log. After an error the connection cannot be used.
func (s *Strategy) checkBinlog(ctx context.Context, me elector.Candidate, c *witnessConn) error {
	if (s.binlogChecked || s.noWitness) && !s.forMany {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, me.Beat/2)
	defer cancel()
	var logging, format string
	err := c.pinned.QueryRow(ctx, conclavesql.LockBinlog, nil, &logging, &format)
	switch class := s.classify(err); {
	case class == connBroken, class == keepsFailing && s.forMany:
		return fmt.Errorf("look at the binary log's format: %w", err)
	case class == keepsFailing:
		s.log.Warn("the binary log's format cannot be read: no witness for now", "error", err)
		return nil // checked again on the next connection
	}
	s.binlogChecked = true // answered, or no such log
	if (logging == "1" || logging == "ON") && format == "STATEMENT" {
		if s.forMany {
			return errors.New("binlog_format is STATEMENT, with which elections cannot share statements: set ROW")
		}
		s.health.withoutWitness(errors.New("binlog_format is STATEMENT: set ROW"))
	}
	return nil
}

// errorClass is what an error of a statement about named locks means.
type errorClass int

const (
	noError      errorClass = iota
	unsupported             // this server never allows it
	connBroken              // the connection is lost; nothing is known about the server
	keepsFailing            // failed several times in a row: continue without it, this time
)

// maxRefusals is after how many unknown MySQL errors in a row an election
// continues without a witness, so that it does not wait for ever for a server that
// always answers with an error.
const maxRefusals = 3

// classify distinguishes a server that has no named locks from one that is being
// restarted, kills connections, or is behind a failing proxy. All of them answer
// with a MySQL error; only the first is remembered.
func (s *Strategy) classify(err error) errorClass {
	switch {
	case err == nil:
		s.refusals = 0
		return noError
	case conclavesql.IsUnsupported(err):
		s.refusals = 0
		return unsupported
	case !conclavesql.Answered(err):
		return connBroken
	}
	if s.refusals++; s.refusals < maxRefusals {
		return connBroken
	}
	return keepsFailing
}

// exec executes one statement within the limit. After an error the connection is
// lost, except from a read-only server, which is still there.
func (c *witnessConn) exec(ctx context.Context, limit time.Duration, statement string, args ...any) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	n, err := c.pinned.Exec(ctx, statement, args...)
	if err != nil && !conclavesql.IsReadOnly(err) {
		c.lost.Store(true)
	}
	return n, err
}

// query reads one row within the limit. After an error the connection is lost.
func (c *witnessConn) query(ctx context.Context, limit time.Duration, statement string, args []any, dest ...any) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := c.pinned.QueryRow(ctx, statement, args, dest...)
	if err != nil {
		c.lost.Store(true)
	}
	return err
}

// keepSpare keeps a connection for the next round.
func (s *Strategy) keepSpare(c *witnessConn) {
	s.dropSpare()
	s.spare = c
}

// refused closes a connection after an error. If the server is read-only, another
// would meet the same one, so that it is kept for a beat.
func (s *Strategy) refused(me elector.Candidate, c *witnessConn, err error) {
	if conclavesql.IsReadOnly(err) && time.Since(c.made) < me.Beat {
		if s.waiting == nil || s.waiting.conn != c {
			s.keepSpare(c)
		}
		return
	}
	s.dropConn(c)
}

// dropSpare closes the spare connection, if there is one.
func (s *Strategy) dropSpare() {
	if c := s.spare; c != nil {
		s.spare = nil
		c.close()
	}
}

// close drops the connection, unless other elections share it.
func (c *witnessConn) close() {
	if c.lock == "" {
		c.drop()
	}
}

// drop closes the connection, and with it ends every lock and wait on it.
func (c *witnessConn) drop() {
	c.lost.Store(true)
	c.pinned.Close()
}

// lockName returns the name of a witness. No other node knows the nonce before it is
// published.
func lockName(nonce string) string { return "cv:" + nonce }

// release releases a named lock.
func (c *witnessConn) release(ctx context.Context, lock string) error {
	var released stdsql.NullInt64
	return c.query(ctx, releaseLimit, conclavesql.LockRelease, []any{lock}, &released)
}

// releaseLimit bounds the release of a lock. After it the connection is closed,
// which releases the lock too.
const releaseLimit = 500 * time.Millisecond
