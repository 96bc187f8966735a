package sql

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-sql-driver/mysql"
)

// Create runs statements that create tables, on a connection of their own: on a
// slow disk that may take longer than the deadline of Options, so that only ctx
// bounds it. Tables that are created on demand are not part of the schema of
// Migrate: a cluster does not need them, and with a schema version of their own
// every older program would refuse the database.
func (db *DB) Create(ctx context.Context, statements ...string) error {
	conn, err := db.pinPatiently(ctx)
	if err != nil {
		return fmt.Errorf("create a table: %w", err)
	}
	defer conn.Close()
	for _, statement := range statements {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return fmt.Errorf("create a table: %w", err)
		}
	}
	return nil
}

// Widen changes the TIMESTAMP columns of a table that was created on demand by
// an older program to DATETIME with the given statement, if the table still has
// any. Any number of processes may call it at once and repeatedly, while others
// use the table.
func (db *DB) Widen(ctx context.Context, table, alter string) error {
	conn, err := db.pinPatiently(ctx)
	if err != nil {
		return fmt.Errorf("migrate the times of %s: %w", table, err)
	}
	defer conn.Close()
	var narrow int
	if err := conn.QueryRow(ctx, schemaNarrow, []any{table}, &narrow); err != nil {
		return fmt.Errorf("read the columns of %s: %w", table, err)
	}
	if narrow == 0 {
		return nil
	}
	if err := alterTable(ctx, conn, alter); err != nil {
		return fmt.Errorf("migrate the times of %s: %w", table, err)
	}
	return nil
}

// alterPause is the pause between two attempts to change a table, in which
// other statements can run.
const alterPause = 200 * time.Millisecond

// alterTable runs a statement that creates or changes a table. The statement
// needs the table exclusively for a moment. While it waits for that, all other
// statements wait behind it, even a leader's renewal, so an idle open
// transaction could depose the leader. Therefore each attempt waits at most one
// second (the shortest timeout there is), lets the other statements pass, and
// is repeated until ctx ends.
func alterTable(ctx context.Context, conn *Pinned, change string) error {
	var refused *mysql.MySQLError
	if _, err := conn.Exec(ctx, "SET SESSION lock_wait_timeout = 1"); err != nil && !errors.As(err, &refused) {
		return err
	}
	for {
		_, err := conn.Exec(ctx, change)
		if !RefusedAs(err, errLockWait) {
			return err
		}
		pause := time.NewTimer(alterPause)
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return fmt.Errorf("%w: the table is in use: %w", ErrUnavailable, err)
		}
	}
}
