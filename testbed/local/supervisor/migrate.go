package supervisor

import (
	"context"
	"errors"
	"fmt"
	"time"

	conclavesql "conclave/sql"
)

// dbWait is how long a starting cluster waits for its database, as a meta does.
const dbWait = time.Minute

// lock is that of the metas, whose names the supervisor leaves at their defaults.
var lock = conclavesql.Lock{DataCenter: "default", Name: conclavesql.DefaultLockName}

// migrate brings the database's schema up to date, so that no meta needs the rights
// to create or change tables. If there is nothing to do it only reads: a user with
// the rights of a meta is enough then.
func migrate(ctx context.Context, dsn string, waiting func(time.Duration, error)) error {
	db, err := conclavesql.Open(dsn, conclavesql.Options{})
	if err != nil {
		return err
	}
	defer db.Close()
	err = db.CheckWithin(ctx, lock, dbWait, waiting)
	if errors.Is(err, conclavesql.ErrSchemaOlder) {
		err = db.MigrateWithin(ctx, lock, dbWait, waiting)
	}
	if errors.Is(err, conclavesql.ErrUnavailable) {
		return fmt.Errorf("the database at %s was not there within %v: %w", db.Addr(), dbWait, err)
	}
	if err != nil {
		return fmt.Errorf("database %s: %w", db.Addr(), err)
	}
	return nil
}

// migrated calls Config.Migrate; it ends early when the cluster is stopping.
func (c *Cluster) migrated(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() { // joined below
		ended <- c.cfg.Migrate(ctx, c.dsn, func(waited time.Duration, why error) {
			if waited > 0 { // its own database needs a moment
				c.cfg.Logger.Warn("the database is not there yet", "waited", waited, "error", why)
			}
		})
	}()
	select {
	case err := <-ended:
		return err
	case <-c.stopping:
		cancel()
		return <-ended
	}
}
