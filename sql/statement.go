package sql

import (
	"context"
	stdsql "database/sql"
	"database/sql/driver"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strings"
)

// files holds the schema and the statements, one in each file. Each file begins
// with the reason for every predicate in its WHERE clause. The number of a
// schema file is the version that the schema has after it, and the order of
// application.
//
//go:embed schema/*.sql lock/*.sql state/*.sql history/*.sql diagnosis/*.sql member/*.sql
var files embed.FS

// The statements of the election and of the fenced writes. Their comments are
// removed before they are sent.
var (
	schemaRead = statement("schema/read_version.sql")
	schemaSeed = statement("schema/seed_version.sql")
	schemaSet  = statement("schema/set_version.sql")

	schemaRows    = statement("schema/rows.sql")
	schemaEngines = statement("schema/engines.sql")

	LockSeed       = statement("lock/seed.sql")
	LockLook       = statement("lock/look.sql")
	LockLookAll    = statement("lock/look_all.sql")
	LockWinVacant  = statement("lock/win_vacant.sql")
	LockWinOwn     = statement("lock/win_own.sql")
	LockWinExpired = statement("lock/win_expired.sql")
	LockWinOverdue = statement("lock/win_overdue.sql")
	LockWinWitness = statement("lock/win_witness.sql")
	LockWinAll     = statement("lock/win_all.sql")
	LockRenew      = statement("lock/renew.sql")
	LockRenewAll   = statement("lock/renew_all.sql")
	LockReacquire  = statement("lock/reacquire.sql")
	LockResign     = statement("lock/resign.sql")
	LockTake       = statement("lock/take.sql")
	LockAwait      = statement("lock/await.sql")
	LockUsed       = statement("lock/used.sql")
	LockRelease    = statement("lock/release.sql")
	LockBinlog     = statement("lock/binlog.sql")

	StateSeed  = statement("state/seed.sql")
	StateRead  = statement("state/read.sql")
	StateOwner = statement("state/owner.sql")
	StateWrite = statement("state/write.sql")
	StateSeal  = statement("state/seal.sql")

	HistoryRecord = statement("history/record.sql")
	HistoryList   = statement("history/list.sql")
)

// The statements of the original's election.
var (
	SofaLook    = statement("lock/sofa_look.sql")
	SofaInsert  = statement("lock/sofa_insert.sql")
	SofaFirst   = statement("lock/sofa_first.sql")
	SofaWin     = statement("lock/sofa_win.sql")
	SofaBeat    = statement("lock/sofa_beat.sql")
	SofaRefresh = statement("lock/sofa_refresh.sql")
)

// statement returns a statement of this package.
func statement(file string) string { return Statement(files, file) }

// Statements reads the folder sql of a package with tables of its own, which embeds its
// statements by the rule of this one: one in each file, which begins with the reason
// for every predicate. It returns a function that returns a statement by the name of
// its file without the ending, and panics if there is none.
func Statements(files fs.FS) func(name string) string {
	paths, err := fs.Glob(files, "sql/*.sql")
	if err != nil {
		panic(err) // the pattern is a constant
	}
	texts := map[string]string{}
	for _, p := range paths {
		texts[strings.TrimSuffix(path.Base(p), ".sql")] = Statement(files, p)
	}
	return func(name string) string {
		text, found := texts[name]
		if !found {
			panic("no statement " + name)
		}
		return text
	}
}

// Statement returns the content of a file without its comment lines, because
// the driver would count question marks in comments as parameters. It panics if
// the file does not exist, which a test of this package would show.
func Statement(files fs.FS, file string) string {
	text, err := fs.ReadFile(files, file)
	if err != nil {
		panic(err)
	}
	var lines []string
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(strings.TrimSpace(line), "--") {
			lines = append(lines, line)
		}
	}
	return strings.TrimSpace(strings.Join(lines, ""))
}

// lists are the lists of parameters that Repeat lengthens.
var lists = regexp.MustCompile(`IN \((\?|\(\?(?:, \?)+\))\)`)

// Repeat returns a statement for n rows: each of its lists, IN (?) or IN ((?, ?)), has
// its only element n times.
func Repeat(statement string, n int) string {
	return lists.ReplaceAllString(statement, "IN ("+strings.Repeat("$1, ", n-1)+"$1)")
}

// ErrNoRows reports that a query for one row found none.
var ErrNoRows = stdsql.ErrNoRows

// Execer runs a statement that changes rows. *DB and *Pinned implement it.
type Execer interface {
	Exec(ctx context.Context, statement string, args ...any) (changed int64, err error)
}

// Querier reads one row. *DB and *Pinned implement it.
type Querier interface {
	QueryRow(ctx context.Context, statement string, args []any, dest ...any) error
}

var (
	_ Execer  = (*DB)(nil)
	_ Querier = (*DB)(nil)
	_ Execer  = (*Pinned)(nil)
	_ Querier = (*Pinned)(nil)
)

// Exec runs one statement under the deadline of Options and returns how many
// rows it changed; a row that is set to its present values does not count. The
// statement is sent once: after ErrUnavailable it is unknown whether it was, or
// will be, applied.
func (db *DB) Exec(ctx context.Context, statement string, args ...any) (int64, error) {
	l, ctx := limited(ctx, db.opts.Deadline)
	db.sent.Add(1)
	n, err := ExecOn(ctx, db.pool, statement, args...)
	return n, classify(db.answered(l, err))
}

// ExecOn runs one statement on a pool, a connection or in a transaction of database/sql, and
// returns how many rows it changed. A connection of a pool goes back when that is known: to
// read the result of the pool's own ExecContext may mean to wait for the next statement on
// that connection.
func ExecOn(ctx context.Context, on interface {
	ExecContext(ctx context.Context, query string, args ...any) (stdsql.Result, error)
}, statement string, args ...any) (int64, error) {
	pool, is := on.(interface {
		Conn(ctx context.Context) (*stdsql.Conn, error)
		Stats() stdsql.DBStats
	})
	if !is {
		return changed(on.ExecContext(ctx, statement, args...))
	}
	for left := pool.Stats().Idle + 1; ; left-- { // those that are idle may have ended
		conn, err := pool.Conn(ctx)
		if err != nil {
			return 0, err
		}
		n, err := changed(conn.ExecContext(ctx, statement, args...))
		_ = conn.Close()                                     // if it has ended, err says so
		if left == 0 || !errors.Is(err, driver.ErrBadConn) { // which means: not executed
			return n, err
		}
	}
}

// changed returns the number of rows that a statement changed.
func changed(result stdsql.Result, err error) (int64, error) {
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// QueryRow reads one row into dest under the deadline of Options, or returns
// ErrNoRows.
func (db *DB) QueryRow(ctx context.Context, statement string, args []any, dest ...any) error {
	l, ctx := limited(ctx, db.opts.Deadline)
	db.sent.Add(1)
	return classify(db.answered(l, db.pool.QueryRowContext(ctx, statement, args...).Scan(dest...)))
}

// Query calls each for every row, under the deadline of Options. It stops at
// the first error of each and returns it.
func (db *DB) Query(ctx context.Context, statement string, args []any, each func(scan func(dest ...any) error) error) error {
	l, ctx := limited(ctx, db.opts.Deadline)
	db.sent.Add(1)
	return classify(db.answered(l, db.rows(ctx, statement, args, each)))
}

// rows runs a query and calls each for every row.
func (db *DB) rows(ctx context.Context, statement string, args []any, each func(scan func(dest ...any) error) error) error {
	rows, err := db.pool.QueryContext(ctx, statement, args...)
	return scanned(rows, err, each)
}

// scanned calls each for every row of a query's result.
func scanned(rows *stdsql.Rows, err error, each func(scan func(dest ...any) error) error) error {
	if err != nil {
		return err
	}
	defer rows.Close() // has no effect after Next was false; the error is in Err
	for rows.Next() {
		if err := each(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}

// answered ends the limit of a statement, and keeps the time that it took if the
// server has answered it. It returns the statement's error.
func (db *DB) answered(l *limit, err error) error {
	if err == nil || errors.Is(err, ErrNoRows) {
		db.trips.add(l.took())
	}
	if err = l.end(err); errors.Is(err, context.DeadlineExceeded) && l.unconnected {
		db.connectBeside()
	}
	return err
}

// fits returns an error if a write with this body would be larger than
// max_allowed_packet. An operator may have raised it since the last read, so it is
// read again before a write is refused.
func (s *StateStore) fits(ctx context.Context, body string) error {
	size := sentSize(body)
	exceeds := func() bool { most := s.packet.Load(); return 0 < most && most < size }
	if exceeds() {
		_, _ = s.read(ctx) // if it fails, the last value counts
	}
	if exceeds() {
		return fmt.Errorf("%w: it would have %d bytes, max_allowed_packet is %d", ErrTooLarge, size, s.packet.Load())
	}
	return nil
}

// learn keeps the server's max_allowed_packet. After it was raised, the next
// statement needs a new connection: a session has the limit with which it began.
func (s *StateStore) learn(packet int64) {
	if last := s.packet.Swap(packet); 0 < last && last < packet {
		s.db.Renew()
	}
}

// Renew closes the pool's idle connections, so that the next statements use new ones.
func (db *DB) Renew() {
	db.pool.SetMaxIdleConns(0)
	db.pool.SetMaxIdleConns(db.opts.MaxConns)
}

// sentSize returns at most how many bytes a write with this body has: the driver
// escapes some characters, and the rest of the statement has less than a KiB.
func sentSize(body string) int64 {
	size := len(body) + 1<<10
	for i := range len(body) {
		if strings.IndexByte("\x00\n\r\x1a'\"\\", body[i]) >= 0 {
			size++
		}
	}
	return int64(size)
}
