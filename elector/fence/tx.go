package fence

import (
	"context"
	stdsql "database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"time"

	conclavesql "conclave/sql"
)

// ErrOutcomeUnknown is returned by Tx if COMMIT was sent and its answer is missing or
// leaves open whether the transaction was committed. If it was, then under the term.
var ErrOutcomeUnknown = errors.New("it is unknown whether the transaction was committed")

// errNoSavepoint is MySQL's error for a savepoint that the transaction does not have.
const errNoSavepoint = 1305

// Tx runs f in a transaction, and commits it if the token is still valid: all that f
// writes takes effect under the term, or nothing does. opts are those of BeginTx; any
// isolation level will do. Errors:
//
//   - That of f, as it is; nothing is written. f must return each error of a statement:
//     after some (1213; 1205 with innodb_rollback_on_timeout; 1020) the server has ended
//     the transaction, and commits what f executes next by itself, without the fence.
//   - sql.ErrTxDone: f has returned nil after such an error, or has ended the transaction
//     itself. What it executed may be committed, in parts and without the fence.
//   - ErrTermEnded: the term has ended, perhaps while f ran; nothing is written.
//   - ErrOutcomeUnknown: see there.
//   - After any other, nothing is written, and the caller may try again: a deadlock (1213),
//     a lock wait (1205), or, at REPEATABLE READ with innodb_snapshot_isolation (MariaDB's
//     default from 11.6), 1020 because the leader has renewed its term since f has read.
//
// The statements of f have no {fence}, and do not lock the lock row. f must not commit or
// roll back, nor execute what commits by itself, such as CREATE TABLE. The lock row must be
// in the database of db.
//
// The lock row is locked when f has returned, in share mode, until COMMIT is executed: for
// a round trip and the commit, however long f runs. An election that comes first makes Tx
// fail; one that comes later waits. If the process is stopped in between, or its host is
// lost, the server ends the connection after a second, and rolls back, for as long as what
// f has written takes. MariaDB's idle_transaction_timeout and the two like it, if they are
// set, end it also if f pauses for longer: f's next statement fails, and nothing is written.
// (The embedded server does so after half of its LockWait, and lets
// elections wait for f, too.)
//
// What f changes is changed by Tx alone, or by an Exec whose pool has
// innodb_lock_wait_timeout=1 in its DSN: an Exec locks the lock row first, and keeps it while
// it waits for f, also for the f of a stopped process, so that renewals and elections wait,
// too. They can also deadlock.
//
// Tx sends five statements besides f's, BEGIN and COMMIT. ctx bounds all but COMMIT and
// ROLLBACK, which only the driver's readTimeout does. Tx may be called concurrently.
func Tx(ctx context.Context, db *stdsql.DB, token Token, opts *stdsql.TxOptions, f func(tx *stdsql.Tx) error) error {
	if err := token.validate(); err != nil {
		return err
	}
	conn, err := db.Conn(ctx)
	if err != nil {
		return fmt.Errorf("fence: under %s: %w", token, err)
	}
	defer conn.Close()
	tx, err := conn.BeginTx(ctx, opts)
	if err != nil {
		return fmt.Errorf("fence: begin under %s: %w", token, err)
	}
	defer func() { _ = tx.Rollback() }() // without effect after Commit
	if _, err := tx.ExecContext(ctx, saveSQL); err != nil {
		return fmt.Errorf("fence: begin under %s: %w", token, err)
	}
	if err := f(tx); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, savedSQL); conclavesql.RefusedAs(err, errNoSavepoint) {
		return fmt.Errorf("fence: under %s: the transaction ended while f ran: %w: %w", token, stdsql.ErrTxDone, err)
	} else if err != nil {
		return fmt.Errorf("fence: under %s: %w", token, err)
	}
	defer func() {
		_ = tx.Rollback()
		after, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		if _, err := conn.ExecContext(after, unboundSQL); err != nil {
			_ = conn.Raw(func(any) error { return driver.ErrBadConn }) // the pool drops it
		}
	}()
	if _, err := tx.ExecContext(ctx, boundSQL); err != nil {
		return fmt.Errorf("fence: under %s: %w", token, err)
	}
	// From here on no node wins. That the row still names the term means that no other
	// node has led since the term was won, because terms only rise: so all of the
	// transaction is under the term, although the row is locked last.
	err = tx.QueryRowContext(ctx, tableSQL, token.Lock.DataCenter, token.Lock.Name, token.Owner, token.Term).Scan(new(string), new(uint64))
	if errors.Is(err, stdsql.ErrNoRows) {
		err = ErrTermEnded
	}
	if err != nil {
		return fmt.Errorf("fence: under %s: %w", token, err)
	}
	if err = tx.Commit(); err == nil {
		return nil
	}
	if errors.Is(err, stdsql.ErrTxDone) && ctx.Err() != nil { // the end of ctx has rolled it back
		err = ctx.Err()
	}
	notSent := errors.Is(err, stdsql.ErrTxDone) || ctx.Err() != nil && errors.Is(err, ctx.Err())
	if !notSent && !conclavesql.NotExecuted(err) {
		err = fmt.Errorf("%w: %w", ErrOutcomeUnknown, err)
	}
	return fmt.Errorf("fence: commit under %s: %w", token, err)
}
