package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"conclave/elector/termcas"
	"conclave/internal/cli"
	"conclave/meta"
	"conclave/slot"
	conclavesql "conclave/sql"
)

// database locates the process's MySQL.
type database struct {
	dsn, file string
	wait      time.Duration
}

func (d *database) bind(f *pflag.FlagSet) {
	f.StringVar(&d.dsn, "dsn", "", "database: user:password@tcp(host:port)/name (visible in the process list: prefer --dsn-file)")
	f.StringVar(&d.file, "dsn-file", "", "file whose first line is the DSN")
	f.DurationVar(&d.wait, "db-wait", time.Minute, "how long to wait for the database at the start")
}

// source returns the DSN.
func (d *database) source() (string, error) {
	switch {
	case d.dsn != "" && d.file != "":
		return "", errors.New("--dsn and --dsn-file exclude each other")
	case d.dsn != "":
		return d.dsn, nil
	case d.file == "":
		return "", errors.New("--dsn or --dsn-file is needed")
	}
	b, err := os.ReadFile(d.file)
	if err != nil {
		return "", fmt.Errorf("--dsn-file: %w", err)
	}
	line, _, _ := strings.Cut(string(b), "\n")
	return strings.TrimSpace(line), nil
}

// open waits for the database and brings its schema up to date.
func (d *database) open(ctx context.Context, c cli.Common, lock conclavesql.Lock, deadline time.Duration) (*conclavesql.DB, error) {
	dsn, err := d.source()
	if err != nil {
		return nil, err
	}
	db, err := conclavesql.Open(dsn, conclavesql.Options{Dial: c.Network.DialContext, Deadline: deadline})
	if err != nil {
		return nil, err
	}
	began, logged := time.Now(), time.Time{}
	for {
		err := d.attempt(ctx, db, lock, d.wait-time.Since(began))
		switch {
		case err == nil:
			return db, nil
		case ctx.Err() != nil:
			db.Close()
			return nil, ctx.Err()
		case !errors.Is(err, conclavesql.ErrUnavailable):
			db.Close()
			return nil, cli.Failed(err)
		case time.Since(began) >= d.wait:
			db.Close()
			return nil, cli.TimedOut(fmt.Errorf("the database at %s was not there within --db-wait %v: %w", db.Addr(), d.wait, err))
		}
		if time.Since(logged) >= 5*time.Second {
			logged = time.Now()
			c.Logger.Warn("the database is not there yet", "database", db.Addr(), "waited", time.Since(began).Round(time.Second), "error", err)
		}
		select {
		case <-ctx.Done():
			db.Close()
			return nil, ctx.Err()
		case <-time.After(min(100*time.Millisecond, d.wait/10+time.Millisecond)):
		}
	}
}

// attempt tries to bring the schema up to date, for the rest of the wait and at
// most for one try of Migrate.
func (d *database) attempt(ctx context.Context, db *conclavesql.DB, lock conclavesql.Lock, left time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, min(max(left, time.Second), conclavesql.MigrateTry))
	defer cancel()
	return db.Migrate(ctx, lock)
}

// withDatabase closes the pool after the server.
type withDatabase struct {
	*meta.Server
	db *conclavesql.DB
}

func (s *withDatabase) Run(ctx context.Context) error {
	defer s.db.Close()
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
