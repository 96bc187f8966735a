package sql

import (
	"context"
	"errors"
	"time"
)

// MigrateWithin is Migrate at the start of a process: it waits for a database
// that cannot be reached, and calls waiting with the reason, at first and every
// 5 s. The error is ErrUnavailable if the database was not there within the
// limit, that of ctx, or that of Migrate.
func (db *DB) MigrateWithin(ctx context.Context, lock Lock, limit time.Duration, waiting func(time.Duration, error)) error {
	return within(ctx, limit, waiting, func(ctx context.Context) error { return db.Migrate(ctx, lock) })
}

// CheckWithin is Check at the start of a process, and waits as MigrateWithin does.
func (db *DB) CheckWithin(ctx context.Context, lock Lock, limit time.Duration, waiting func(time.Duration, error)) error {
	return within(ctx, limit, waiting, func(ctx context.Context) error { return db.Check(ctx, lock) })
}

// within repeats an attempt until the database is there.
func within(ctx context.Context, limit time.Duration, waiting func(time.Duration, error), attempt func(context.Context) error) error {
	began, logged := time.Now(), time.Time{}
	for {
		try, cancel := context.WithTimeout(ctx, min(max(limit-time.Since(began), time.Second), MigrateTry))
		err := attempt(try)
		cancel()
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case !errors.Is(err, ErrUnavailable) || time.Since(began) >= limit:
			return err
		}
		if time.Since(logged) >= 5*time.Second {
			logged = time.Now()
			waiting(time.Since(began).Round(time.Second), err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(min(100*time.Millisecond, limit/10+time.Millisecond)):
		}
	}
}
