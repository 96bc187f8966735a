package sql

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-sql-driver/mysql"
)

// Widen changes the TIMESTAMP columns of a table to DATETIME with the given
// statement, if the table still has any. (Tables that are created on demand
// have no schema version.) Any number of processes may call it at once and
// repeatedly, while others use the table.
func Widen(ctx context.Context, conn *Pinned, table, alter string) error {
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
