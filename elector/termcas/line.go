package termcas

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"conclave/elector"
	conclavesql "conclave/sql"
)

// line is a pinned connection: to wait on, to win on and to renew on. What is held
// on it is held for as long as it lives.
type line struct {
	conn *conclavesql.Pinned
	lost atomic.Bool // broken, or doubted; once true it is only good for closing
}

// open makes a new line, within half a beat.
func (s *Strategy) open(ctx context.Context, me elector.Candidate) (*line, error) {
	ctx, cancel := context.WithTimeout(ctx, me.Beat/2)
	defer cancel()
	l := &line{}
	conn, err := s.cfg.DB.Pin(ctx, func(error) {
		l.lost.Store(true)
		s.nudge()
	})
	if err != nil {
		return nil, err
	}
	l.conn = conn
	if err := s.checkBinlog(ctx, l); err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

// checkBinlog looks once whether this server replicates statements as text. Then
// a witness in the predicate would match nothing on a replica, and a fail-over
// would set the term back: such a server gets no witness. A server that does not
// know these variables has no such log. An error means that the line is no good.
func (s *Strategy) checkBinlog(ctx context.Context, l *line) error {
	if s.checked || s.plain {
		return nil
	}
	var logging, format string
	err := l.conn.QueryRow(ctx, conclavesql.LockBinlog, nil, &logging, &format)
	switch s.judge(err) {
	case broken:
		return fmt.Errorf("look at the binary log's format: %w", err)
	case stubborn:
		s.log.Warn("the binary log's format cannot be read: no witness for now", "error", err)
		return nil // the next line is asked again
	}
	s.checked = true // answered, or no such log
	if (logging == "1" || logging == "ON") && format == "STATEMENT" {
		s.plain = true
		s.log.Warn("binlog_format is STATEMENT: elections go by the lease only, without a witness")
	}
	return nil
}

// exec runs one statement within half a beat; an error leaves the line lost.
func (l *line) exec(ctx context.Context, limit time.Duration, statement string, args ...any) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	n, err := l.conn.Exec(ctx, statement, args...)
	if err != nil {
		l.lost.Store(true)
	}
	return n, err
}

// query reads one value within half a beat; an error leaves the line lost.
func (l *line) query(ctx context.Context, limit time.Duration, statement string, args []any, dest ...any) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := l.conn.QueryRow(ctx, statement, args, dest...)
	if err != nil {
		l.lost.Store(true)
	}
	return err
}

// close drops the connection, and with it every lock and wait on it.
func (l *line) close() {
	l.lost.Store(true)
	l.conn.Close()
}
