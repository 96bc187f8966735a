package sql

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-sql-driver/mysql"
)

// Widen turns the TIMESTAMP columns of a table into DATETIME by the statement given,
// if the table still has one: a table that is made on demand has no version to go by.
// Any number of processes may do it at once, and again, while others use the table.
func Widen(ctx context.Context, conn *Pinned, table, alter string) error {
	var narrow int
	if err := conn.QueryRow(ctx, schemaNarrow, []any{table}, &narrow); err != nil {
		return fmt.Errorf("look at the columns of %s: %w", table, err)
	}
	if narrow == 0 {
		return nil
	}
	if err := reshape(ctx, conn, alter); err != nil {
		return fmt.Errorf("widen %s: %w", table, err)
	}
	return nil
}

// reshapePause is how long the others have the table between two tries to change it.
const reshapePause = 200 * time.Millisecond

// reshape runs a statement that makes or changes a table. For a moment it needs the
// table for itself, and while it waits for those who use it everybody else waits
// behind it, a leader's renewal too: who has left a transaction open would depose the
// leader. So it waits for a second (the shortest wait there is), lets the others pass,
// and comes again, until ctx ends.
func reshape(ctx context.Context, conn *Pinned, change string) error {
	var refused *mysql.MySQLError
	if _, err := conn.Exec(ctx, "SET SESSION lock_wait_timeout = 1"); err != nil && !errors.As(err, &refused) {
		return err
	}
	for {
		_, err := conn.Exec(ctx, change)
		if !RefusedAs(err, errLockWait) {
			return err
		}
		pause := time.NewTimer(reshapePause)
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return fmt.Errorf("%w: somebody holds the table: %w", ErrUnavailable, err)
		}
	}
}
