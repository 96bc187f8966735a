package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"conclave/lab/oversell"
)

func (a *app) labOversellCommand() *cobra.Command {
	cfg := oversell.DefaultConfig()
	var db, html string
	cmd := &cobra.Command{
		Use: "oversell", Short: "Sell 100 items to 1,500 buyers, with no lock and with each", Args: want(),
		Long: `Plays the shop of article 004: buyers read the stock, think, and write it back,
in one way after the other, all of them in under three minutes. A way that must hold
and oversells, or that is arranged to oversell and does not, is a failure: exit 1.

--db DSN names a MySQL database in which tables may be made: they stay. Without it an
embedded one is started (the program devdb). The locks that are built on ZooKeeper
stand on a tree in memory, or on --zookeeper ADDR.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.oversell(cmd.Context(), cfg, db, html)
		},
	}
	f := cmd.Flags()
	f.StringVar(&db, "db", "embedded", "embedded, or a MySQL database (DSN)")
	f.IntVar(&cfg.Buyers, "buyers", cfg.Buyers, "how many want one: more than there are items")
	f.IntVar(&cfg.Items, "items", cfg.Items, "how many there are")
	f.IntVar(&cfg.Workers, "workers", cfg.Workers, "among how many sessions the buyers are spread")
	f.DurationVar(&cfg.Think, "think", cfg.Think, "the longest that a buyer thinks between reading and writing")
	f.Uint64Var(&cfg.Seed, "seed", cfg.Seed, "of the buyers' thoughts")
	f.StringVar(&cfg.ZooKeeper, "zookeeper", "", "a real ZooKeeper (HOST:PORT) for the locks that are built on it")
	f.StringSliceVar(&cfg.Only, "only", nil, "play these ways only (WAY,...)")
	f.StringVar(&html, "html", "", "write the report to this file, as a page that needs nothing but itself")
	return cmd
}

func (a *app) oversell(ctx context.Context, cfg oversell.Config, db, html string) (err error) {
	cfg.DSN, cfg.Progress = db, a.stderr
	if err := cfg.Validate(); err != nil { // before a database is started
		return usageError{err}
	}
	if err := checkLab(db, cfg.ZooKeeper, html); err != nil {
		return err
	}
	dsn, name, end, err := a.labDatabase(ctx, db)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	cfg.DSN, cfg.Database = dsn, cmp.Or(name, "a MySQL server")
	report, err := oversell.Run(ctx, cfg)
	if len(report.Ways) > 0 {
		err = errors.Join(err, a.show(report, func(w io.Writer) { writeOversell(w, report) }))
		if html != "" {
			err = errors.Join(err, writePage(html, report.WriteHTML))
		}
	}
	if err != nil {
		return err
	}
	if broken := report.Broken(); len(broken) > 0 {
		return fmt.Errorf("%d of %s did not do what they claim, the first: %s: %s", len(broken), plural(len(report.Ways), "way"), broken[0].Name, broken[0].Verdict)
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
	for _, note := range sortedKeys(notes) {
		fmt.Fprintln(w, note)
	}
	fmt.Fprintf(w, "%d items; a thought of up to %d ms; %s, a tree %s; %s in all.\n", r.Items, r.ThinkMs, r.Database, r.Tree, ms(r.TookMs))
}
