package metacmd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/spf13/pflag"

	"conclave/elector/termcas"
	"conclave/internal/cli"
	"conclave/meta"
	"conclave/meta/metasql"
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

// prepare waits for the node's database and checks that its schema is up to date, or
// makes it so.
func (d *database) prepare(ctx context.Context, n *metasql.Node, log hclog.Logger) error {
	prepare := n.DB.CheckWithin
	if d.migrate {
		prepare = n.DB.MigrateWithin
	}
	err := prepare(ctx, n.Lock, d.wait, func(waited time.Duration, why error) {
		log.Warn("the database is not there yet", "database", n.DB.Addr(), "waited", waited, "error", why)
	})
	switch {
	case err == nil:
		for _, advice := range n.DB.Advice() {
			log.Warn("a setting of the replicated database should be changed", "advice", advice)
		}
	case errors.Is(err, conclavesql.ErrUnavailable):
		return cli.TimedOut(fmt.Errorf("the database at %s was not there within --db-wait %v: %w", n.DB.Addr(), d.wait, err))
	case errors.Is(err, conclavesql.ErrSchemaOlder):
		return cli.Failed(fmt.Errorf("%w: run conclave migrate with a user that may create tables, or start with --migrate", err))
	case ctx.Err() == nil:
		return cli.Failed(err)
	}
	return err
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
