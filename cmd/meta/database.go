package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"conclave/elector/termcas"
	"conclave/internal/cli"
	"conclave/internal/node"
	"conclave/meta"
	"conclave/slot"
	conclavesql "conclave/sql"
)

// database locates the process's MySQL.
type database struct {
	dsn, file string
	wait      time.Duration
	migrate   bool
}

func (d *database) bind(f *pflag.FlagSet) {
	f.StringVar(&d.dsn, "dsn", "", "database: user:password@tcp(host:port)/name (visible in the process list: prefer --dsn-file)")
	f.StringVar(&d.file, "dsn-file", "", "file whose first line is the DSN")
	f.BoolVar(&d.migrate, "migrate", false, "bring the schema up to date at the start, as conclave migrate does; it needs the same privileges")
	f.DurationVar(&d.wait, "db-wait", time.Minute, "how long to wait for the database at the start")
}

// open waits for the database and checks that its schema is up to date, or makes it
// so.
func (d *database) open(ctx context.Context, c node.Config, lock conclavesql.Lock, deadline time.Duration) (*conclavesql.DB, error) {
	db, err := d.pool(c, conclavesql.Options{Deadline: deadline})
	if err != nil {
		return nil, err
	}
	prepare := db.CheckWithin
	if d.migrate {
		prepare = db.MigrateWithin
	}
	err = prepare(ctx, lock, d.wait, func(waited time.Duration, why error) {
		c.Logger.Warn("the database is not there yet", "database", db.Addr(), "waited", waited, "error", why)
	})
	switch {
	case err == nil:
		for _, advice := range db.Advice() {
			c.Logger.Warn("a setting of the replicated database should be changed", "advice", advice)
		}
		return db, nil
	case errors.Is(err, conclavesql.ErrUnavailable):
		err = cli.TimedOut(fmt.Errorf("the database at %s was not there within --db-wait %v: %w", db.Addr(), d.wait, err))
	case errors.Is(err, conclavesql.ErrSchemaOlder):
		err = cli.Failed(fmt.Errorf("%w: run conclave migrate with a user that may create tables, or start with --migrate", err))
	case ctx.Err() == nil:
		err = cli.Failed(err)
	}
	db.Close()
	return nil, err
}

// pool returns a pool of connections to the database.
func (d *database) pool(c node.Config, o conclavesql.Options) (*conclavesql.DB, error) {
	dsn, err := cli.DSN(d.dsn, d.file)
	if err != nil {
		return nil, err
	}
	o.Dial = c.Network.DialContext
	return conclavesql.Open(dsn, o)
}

// withDatabase closes the pools after the server.
type withDatabase struct {
	*meta.Server
	pools []*conclavesql.DB
}

func (s *withDatabase) Run(ctx context.Context) error {
	defer func() {
		for _, p := range s.pools {
			p.Close()
		}
	}()
	return s.Server.Run(ctx)
}

// applyProfile changes the defaults of the flags that were not set. The profile
// sofa has the timings that the original ships with, as measured on its version
// 6.6.3, and elects with its statements, which have no witness.
func applyProfile(name string, flags *pflag.FlagSet, c *meta.Config, takeover *string) error {
	switch name {
	case "conclave":
		return nil
	case "sofa":
	default:
		return fmt.Errorf("--profile: unknown profile %q (want conclave or sofa)", name)
	}
	unless := func(flag string, set func()) {
		if !flags.Changed(flag) {
			set()
		}
	}
	unless("lease", func() { c.Lease = 20 * time.Second })
	unless("beat", func() { c.Beat = time.Second })
	unless("node-lease", func() { c.NodeLease = 20 * time.Second })
	unless("takeover", func() { *takeover = string(termcas.Lease) })
	if *takeover == string(termcas.Witness) {
		return errors.New("--takeover witness and --profile sofa exclude each other: the original's statements have no witness")
	}
	c.WarmUp, c.Limits = 30*time.Second, slot.OriginalLimits()
	return nil
}
