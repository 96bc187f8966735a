package sql

import (
	"context"
	stdsql "database/sql"
)

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
	ctx, cancel := context.WithTimeout(ctx, db.opts.Deadline)
	defer cancel()
	db.sent.Add(1)
	return changed(db.pool.ExecContext(ctx, statement, args...))
}

// QueryRow reads one row into dest under the deadline of Options, or returns
// ErrNoRows.
func (db *DB) QueryRow(ctx context.Context, statement string, args []any, dest ...any) error {
	ctx, cancel := context.WithTimeout(ctx, db.opts.Deadline)
	defer cancel()
	db.sent.Add(1)
	return classify(db.pool.QueryRowContext(ctx, statement, args...).Scan(dest...))
}

// Query calls each for every row, under the deadline of Options. It stops at
// the first error of each and returns it.
func (db *DB) Query(ctx context.Context, statement string, args []any, each func(scan func(dest ...any) error) error) error {
	ctx, cancel := context.WithTimeout(ctx, db.opts.Deadline)
	defer cancel()
	db.sent.Add(1)
	rows, err := db.pool.QueryContext(ctx, statement, args...)
	if err != nil {
		return classify(err)
	}
	defer rows.Close() // has no effect after Next was false; the error is in Err
	for rows.Next() {
		if err := each(rows.Scan); err != nil {
			return classify(err)
		}
	}
	return classify(rows.Err())
}

// changed returns the number of rows that a statement changed.
func changed(result stdsql.Result, err error) (int64, error) {
	if err != nil {
		return 0, classify(err)
	}
	n, err := result.RowsAffected()
	return n, classify(err)
}
