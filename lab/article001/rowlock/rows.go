package rowlock

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"time"

	conclavesql "conclave/sql"
)

//go:embed sql/*.sql
var files embed.FS

// statement returns a statement in the folder sql by its name.
var statement = conclavesql.Statements(files)

// rows is the table of the repaired form, row_lock.
type rows struct{ db *conclavesql.DB }

// row is one lock as read at one moment.
type row struct {
	id, beat   uint64
	owner      string
	lease, age time.Duration
}

// Migrate creates the table if it is missing. Any number of processes may call it at
// the same time, and repeatedly.
func Migrate(ctx context.Context, db *conclavesql.DB) error {
	if err := db.Create(ctx, statement("table")); err != nil {
		return fmt.Errorf("rowlock: %w", err)
	}
	return nil
}

// validateKey returns an error if key cannot be stored.
func validateKey(key string) error { return conclavesql.ValidateName("key", key, 256) }

// look reads a lock. It returns ErrNoRows if the lock is free.
func (t rows) look(ctx context.Context, key string) (row, error) {
	var r row
	var leaseMs, ageUs int64
	err := t.db.QueryRow(ctx, statement("look"), []any{key}, &r.id, &r.owner, &r.beat, &leaseMs, &ageUs)
	if err != nil {
		return row{}, fmt.Errorf("look at lock %s: %w", key, err)
	}
	r.lease = time.Duration(leaseMs) * time.Millisecond
	r.age = time.Duration(ageUs) * time.Microsecond
	return r, nil
}

// errDeadlock is the MySQL error number of a deadlock. Inserts that wait for one row
// deadlock when it is deleted, and one of them gets this error.
const errDeadlock = 1213

// acquire inserts a row and returns its id, or zero if the lock is held. After an error
// the row may have been inserted, or may be later; it names the owner, but the lock is not
// held.
func (t rows) acquire(ctx context.Context, key, owner string, lease time.Duration) (uint64, error) {
	n, err := t.db.Exec(ctx, statement("acquire"), key, owner, lease.Milliseconds())
	switch {
	case conclavesql.RefusedAs(err, errDeadlock):
		return 0, nil // the insert was rolled back
	case err != nil:
		return 0, fmt.Errorf("acquire lock %s: %w", key, err)
	case n == 0:
		return 0, nil
	}
	r, err := t.look(ctx, key)
	switch {
	case errors.Is(err, conclavesql.ErrNoRows), err == nil && r.owner != owner:
		return 0, nil // deleted by hand in between
	case err != nil:
		return 0, err
	}
	return r.id, nil
}

// renew refreshes a held row. It returns false if the row does not exist any more. It
// can be repeated safely: an id is not used again.
func (t rows) renew(ctx context.Context, id uint64, owner string) (bool, error) {
	n, err := t.db.Exec(ctx, statement("refresh"), id, owner)
	if err != nil {
		return false, fmt.Errorf("refresh lock row %d: %w", id, err)
	}
	return n == 1, nil
}

// remove deletes a row of this owner. It can be repeated safely.
func (t rows) remove(ctx context.Context, id uint64, owner string) error {
	if _, err := t.db.Exec(ctx, statement("remove"), id, owner); err != nil {
		return fmt.Errorf("remove lock row %d: %w", id, err)
	}
	return nil
}

// clean deletes another owner's row if its lease has expired by the database's clock,
// or whatever that clock says if overdue is set, unless the row has changed since it
// was read.
func (t rows) clean(ctx context.Context, r row, overdue bool) error {
	clean := statement("clean")
	if overdue {
		clean = statement("clean_overdue")
	}
	if _, err := t.db.Exec(ctx, clean, r.id, r.beat); err != nil {
		return fmt.Errorf("clean lock row %d of %s: %w", r.id, r.owner, err)
	}
	return nil
}
