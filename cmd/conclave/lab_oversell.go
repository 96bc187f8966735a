package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"conclave/lab/oversell"
)

func (a *app) labOversellCommand() *cobra.Command {
	cfg := oversell.DefaultConfig()
	var db, html string
	cmd := &cobra.Command{
		Use: "oversell", Short: "Sell 100 items to 1,500 buyers with different locks", Args: want(),
		Long: `Run the shop of article 004: buyers read the stock, think, and write it back, with one
way of locking after the other, in less than three minutes. Exit with 1 if a way that
must not oversell does, or if one that is expected to oversell does not.

--db DSN names a MySQL database in which tables are created; they are not removed.
Without it an embedded one is used. Locks based on ZooKeeper use
a ZooKeeper in memory, or that of --zookeeper.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.oversell(cmd.Context(), cfg, db, html)
		},
	}
	f := cmd.Flags()
	f.StringVar(&db, "db", "embedded", "embedded or a MySQL database (DSN)")
	f.IntVar(&cfg.Buyers, "buyers", cfg.Buyers, "number of buyers; more than items")
	f.IntVar(&cfg.Items, "items", cfg.Items, "number of items")
	f.IntVar(&cfg.Workers, "workers", cfg.Workers, "number of sessions that the buyers share")
	f.DurationVar(&cfg.Think, "think", cfg.Think, "maximum time between a buyer's read and write")
	f.Uint64Var(&cfg.Seed, "seed", cfg.Seed, "seed of the buyers' thinking times")
	f.StringVar(&cfg.ZooKeeper, "zookeeper", "", "HOST:PORT of a real ZooKeeper for the locks based on it")
	f.StringSliceVar(&cfg.Only, "only", nil, "run only these ways (WAY,...)")
	f.StringVar(&html, "html", "", "write the report to this file as one HTML page")
	moreThan0(f, "items")
	return cmd
}

func (a *app) oversell(ctx context.Context, cfg oversell.Config, db, html string) (err error) {
	cfg.DSN, cfg.Progress = db, a.stderr
	if err := cfg.Validate(); err != nil { // before a database is started
		return usageError{err}
	}
	var end func() error
	if cfg.DSN, cfg.Database, end, err = a.labDatabase(ctx, db, cfg.ZooKeeper); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	cfg.Database = cmp.Or(cfg.Database, "a MySQL server")
	report, err := oversell.Run(ctx, cfg)
	if len(report.Ways) > 0 {
		err = errors.Join(err, a.show(report, func(w io.Writer) { writeOversell(w, report) }))
		if html != "" {
			err = errors.Join(err, writeFile(html, report.WriteHTML))
		}
	}
	if err != nil {
		return err
	}
	if broken := report.Broken(); len(broken) > 0 {
		return fmt.Errorf("%d of %s did not behave as expected, the first: %s: %s", len(broken), plural(len(report.Ways), "way"), broken[0].Name, broken[0].Verdict)
	}
	return nil
}

func writeOversell(w io.Writer, r oversell.Report) {
	t := newTable("WAY", "BUYERS", "SOLD", "ORDERS", "LEFT", "OVERSOLD", "LOST", "REFUSED", "MS", "WAKE-UPS", "REQUESTS", "")
	known := func(n *uint64) string {
		if n == nil {
			return ""
		}
		return fmt.Sprint(*n)
	}
	notes := map[string]bool{}
	for _, row := range r.Ways {
		t.add(row.Name, row.Buyers, row.Sold, row.Orders, row.Left, row.Oversold, row.Lost, row.Refused, row.TookMs, known(row.WakeUps), known(row.Requests), row.Verdict)
		if row.Note != "" {
			notes[row.Name+": "+row.Note] = true
		}
	}
	t.write(w)
	fmt.Fprintln(w)
	for _, note := range slices.Sorted(maps.Keys(notes)) {
		fmt.Fprintln(w, note)
	}
	fmt.Fprintf(w, "%d items; thinking time up to %d ms; %s; ZooKeeper %s; %s in total.\n", r.Items, r.ThinkMs, r.Database, r.Tree, ms(r.TookMs))
}
